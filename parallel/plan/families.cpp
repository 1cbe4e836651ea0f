#include "parallel/plan/families.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// All families that keep to a number of stages a device.
std::vector<ScheduleFamily> searched_families(CountChoice virtual_stages, int devices, int nodes) {
  auto families = all_schedule_families(devices, nodes);
  if (const int* most = virtual_stages.given())
    std::erase_if(families, [&](const ScheduleFamily& family) { return stages_of(family, devices) > int64_t{*most} * devices; });
  return families;
}

std::vector<ScheduleFamily> named_families(NamedSchedule schedule, CountChoice virtual_stages, int devices, int nodes) {
  if (const int* number = virtual_stages.given()) return {{schedule, *number}};
  if (schedule != NamedSchedule::interleaved) return {{schedule}};
  std::vector<ScheduleFamily> families;
  for (int stages = 1; stages <= kMostVirtualStages && stages * devices <= nodes; ++stages) families.push_back({schedule, stages});
  return families;
}

}  // namespace

std::string name_of(const ScheduleFamily& family) {
  if (const auto* fixed = std::get_if<Schedule>(&family.order)) return fixed->name;
  return std::string(name_of(std::get<NamedSchedule>(family.order)));
}

int stages_of(const ScheduleFamily& family, int devices) {
  if (const auto* fixed = std::get_if<Schedule>(&family.order)) return fixed->stage_count();
  const int64_t stages = int64_t{devices} * stages_per_device(std::get<NamedSchedule>(family.order), family.virtual_stages);
  return static_cast<int>(std::min<int64_t>(stages, std::numeric_limits<int>::max()));
}

Schedule order_of(const ScheduleFamily& family, int devices, int micro_batches) {
  if (const auto* fixed = std::get_if<Schedule>(&family.order)) return *fixed;
  return make_schedule(std::get<NamedSchedule>(family.order), devices, micro_batches, family.virtual_stages);
}

std::vector<ScheduleFamily> all_schedule_families(int devices, int nodes) {
  using enum NamedSchedule;
  if (devices == 1) return {{one_f_one_b}, {gpipe}};
  std::vector<ScheduleFamily> families{{one_f_one_b}, {zb_h1}, {one_f_one_b, 1, true}};
  if (nodes >= 2 * devices) {
    families.push_back({zb_v});
    families.push_back({zb_v, 2, true});
  }
  for (int stages = 2; stages <= kMostVirtualStages && nodes >= stages * devices; ++stages) families.push_back({interleaved, stages});
  return families;
}

std::vector<ScheduleFamily> families_of(const ScheduleChoice& choice, int devices, int nodes) {
  if (const Schedule* fixed = choice.fixed()) {
    require(fixed->device_count() == devices, "PlanOptions::schedule: is for ", fixed->device_count(), " devices, the plan has ", devices,
            "; give as many devices as the schedule has");
    return {{*fixed}};
  }
  if (const NamedSchedule* named = choice.named()) return named_families(*named, choice.virtual_stages(), devices, nodes);
  return searched_families(choice.virtual_stages(), devices, nodes);
}

}  // namespace sluice::parallel
