#include "parallel/plan/device_marks.h"

#include <algorithm>
#include <utility>

#include "parallel/plan/remat.h"

namespace sluice::parallel {

namespace {

/// The stages of one device in up to `most` segments each, all others whole.
std::vector<int> segments_on(const Schedule& schedule, const Partition& stages, int device, int most) {
  std::vector<int> segments(stages.stage_count(), 1);
  for (int stage = 0; stage < stages.stage_count(); ++stage)
    if (schedule.device_of_stage[stage] == device) segments[stage] = std::min(most, stages.sizes[stage]);
  return segments;
}

/// What other devices do does not matter to one device's bytes.
Schedule only_on(const Schedule& schedule, int device) {
  Schedule own{schedule.name, schedule.micro_batches, schedule.device_of_stage, {}};
  own.devices.resize(schedule.device_count());
  own.devices[device] = schedule.devices[device];
  return own;
}

DeviceMarks marks_in_segments(const PlanProblem& problem, const ModelCosts& costs, const Schedule& own, const Partition& stages, int device,
                              int64_t budget, int most_segments) {
  const ModelCost& model = costs.on(device);
  const SegmentedPartition cut = in_parts(costs.any(), stages, segments_on(own, stages, device, most_segments));
  std::vector<bool> marks(problem.topology.node_count(), false);
  DeviceMarks tried{.seconds = 0, .segments = {}, .marked = {}};
  tried.missing =
      choose_rematerialization(problem.topology, model, in_segments(own, cut.segments_of_stage()), cut.segments(), device, budget, marks);
  for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++]) {
    if (own.device_of_stage[stage] != device) continue;
    tried.segments.push_back(cut.segments_of_stage()[stage]);
    for (int node = first; node < first + stages.sizes[stage]; ++node) {
      if (!marks[node]) continue;
      tried.marked.push_back(node);
      tried.seconds += model.nodes[node].recompute;
    }
  }
  return tried;
}

bool is_better(const DeviceMarks& a, const DeviceMarks& b) {
  return a.missing < b.missing || (a.missing == b.missing && a.seconds < b.seconds);
}

}  // namespace

SegmentedPartition in_parts(const ModelCost& model, const Partition& stages, std::vector<int> segments) {
  std::vector<int> sizes;
  for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++]) {
    if (segments[stage] == 1) {
      sizes.push_back(stages.sizes[stage]);
      continue;
    }
    const auto parts = segment_sizes(model, first, first + stages.sizes[stage], segments[stage]);
    sizes.insert(sizes.end(), parts.begin(), parts.end());
  }
  return {Partition{std::move(sizes)}, std::move(segments)};
}

DeviceMarks least_recomputation(const PlanProblem& problem, const ModelCosts& costs, const Schedule& schedule, const Partition& stages,
                                int device, int64_t budget, SearchWatch& watch) {
  const Schedule own = only_on(schedule, device);
  const int most = problem.choices.segments ? std::ranges::max(stages.sizes) : 1;
  DeviceMarks best;
  for (int segments = 1;; segments = std::min(most, 2 * segments)) {
    watch.check();
    DeviceMarks tried = marks_in_segments(problem, costs, own, stages, device, budget, segments);
    if (is_better(tried, best)) best = std::move(tried);
    if (segments == most || (best.missing == 0 && best.seconds == 0)) return best;
  }
}

}  // namespace sluice::parallel
