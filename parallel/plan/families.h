#pragma once
#include <string>
#include <variant>
#include <vector>

#include "parallel/plan/choices.h"

namespace sluice::parallel {

/// Orders of work that a search may use on one placement of stages.
struct ScheduleFamily {
  std::variant<NamedSchedule, Schedule> order;  ///< by name, or a schedule of the user's own
  int virtual_stages = 1;                       ///< of a named one, where it leaves them open
  bool is_open = false;                         ///< any other order of the same stages as well, which is searched
  bool operator==(const ScheduleFamily&) const = default;
};

inline constexpr int kMostVirtualStages = 4;  ///< that a search tries

/// The name of its order; of an open family that of the order with the same placement.
std::string name_of(const ScheduleFamily& family);

/// The stages of a family on `devices` devices.
int stages_of(const ScheduleFamily& family, int devices);

/// Its order for so many micro-batches, which those of a user's own schedule must be.
Schedule order_of(const ScheduleFamily& family, int devices, int micro_batches);

/// All orders of all placements of stages that make sense for the devices and nodes at hand.
std::vector<ScheduleFamily> all_schedule_families(int devices, int nodes);

/// Those that a choice leaves open.
/// Errors  UsageError for a user's own schedule of another number of devices.
std::vector<ScheduleFamily> families_of(const ScheduleChoice& choice, int devices, int nodes);

}  // namespace sluice::parallel
