#include "parallel/program/schedule.h"

#include <algorithm>

#include "core/error.h"

namespace sluice::parallel {

void require_few_enough(int micro_batches, int stages, std::string_view name) {
  require(std::int64_t{micro_batches} * stages <= kMostStageRuns, name, ": needs at most ", kMostStageRuns / std::max(1, stages),
          " micro-batches over ", stages, stages == 1 ? " stage" : " stages", ", got ", micro_batches,
          ": every stage has actions for each of them, and more would take GiB of memory; make fewer and larger micro-batches");
}

Schedule in_segments(const Schedule& schedule, const std::vector<int>& segments) {
  require(static_cast<int>(segments.size()) == schedule.stage_count(), "schedule: needs a number of segments for each of ",
          schedule.stage_count(), " stages, got ", segments.size());
  if (std::ranges::all_of(segments, [](int count) { return count == 1; })) return schedule;
  Schedule result{schedule.name, schedule.micro_batches, {}, {}};
  std::vector<int> first;  // by stage: its first segment
  for (int stage = 0; stage < schedule.stage_count(); ++stage) {
    require(segments[stage] >= 1, "schedule: needs at least one segment a stage, got ", segments[stage], " for stage ", stage);
    first.push_back(result.stage_count());
    result.device_of_stage.insert(result.device_of_stage.end(), segments[stage], schedule.device_of_stage[stage]);
  }
  for (const auto& order : schedule.devices) {
    auto& actions = result.devices.emplace_back();
    for (const auto& [kind, stage, micro_batch] : order)
      for (int i = 0; i < segments[stage]; ++i) {
        const int segment = kind == Compute::forward ? i : segments[stage] - 1 - i;
        actions.push_back({kind, first[stage] + segment, micro_batch});
      }
  }
  return result;
}

}  // namespace sluice::parallel
