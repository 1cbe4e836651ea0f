#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parallel/program/partition.h"
#include "parallel/program/replication.h"
#include "parallel/program/schedule.h"
#include "parallel/schedule/named.h"

/// What a user fixes of a plan, and what is left open. All that is open is chosen together.
namespace sluice::parallel {

/// Left to the search.
struct Open {};
inline constexpr Open kOpen{};

/// A number >= 1, or open.
using CountChoice = std::variant<int, Open>;

/// What stages are equal in, as far as whole nodes allow.
enum class PartitionRule { uniform, parameters };  ///< uniform: numbers of nodes

/// Where the nodes are cut into stages: anywhere, by a rule, or as given.
using PartitionChoice = std::variant<Open, PartitionRule, Partition>;

/// How many of the nodes compute their activations again in the backward.
enum class Remat { none, full };
std::string_view name_of(Remat remat);  ///< "none" or "full"

/// Those that do, by name.
struct RematNodes {
  std::vector<std::string> names;
};

/// Which nodes compute their activations again: none or all of them, those that are named, or as many as the budgets ask for.
using RematChoice = std::variant<Remat, RematNodes, Open>;

/// Which devices a replica has; open: where devices differ or are in several hosts, those that make the faster step.
using ReplicaDevicesChoice = std::variant<ReplicaDevices, Open>;

/// The order of work: a named one, the user's own, or open.
class ScheduleChoice {
 public:
  struct Named {
    NamedSchedule schedule;
    CountChoice virtual_stages;  ///< stages a device, where the schedule leaves them open
  };
  struct Searched {
    CountChoice virtual_stages;  ///< most stages a device
  };

  /// Errors  UsageError for a number of stages that the schedule cannot have.
  ScheduleChoice(NamedSchedule schedule, CountChoice virtual_stages = 1);
  /// `fixed`'s micro-batches, stages and devices hold.
  /// Errors  UsageError for a schedule that is not a step of training.
  ScheduleChoice(Schedule fixed);
  /// Any order, on any placement of at most so many stages a device.
  /// Errors  UsageError for less than one.
  ScheduleChoice(Open open, CountChoice virtual_stages = kOpen);
  // Out of line, so that whoever makes PlanOptions does not compile them.
  ScheduleChoice(const ScheduleChoice&);
  ScheduleChoice(ScheduleChoice&&) noexcept;
  ScheduleChoice& operator=(const ScheduleChoice&);
  ScheduleChoice& operator=(ScheduleChoice&&) noexcept;
  ~ScheduleChoice();

  const std::variant<Named, Schedule, Searched>& value() const { return value_; }
  /// The user's own schedule; null for other choices.
  const Schedule* fixed() const { return std::get_if<Schedule>(&value_); }

 private:
  std::variant<Named, Schedule, Searched> value_;
};

}  // namespace sluice::parallel
