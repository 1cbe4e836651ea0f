#include "parallel/run/placement.h"

namespace sluice::parallel {

namespace {

Placement placement_of(const layers::Graph::Parameter& description, const Stage::Parameter& parameter, int device) {
  const int64_t single = Device::charged_size(description.spec.shape.elements() * static_cast<int64_t>(size_of(DType::f32)));
  const bool has_copy = !parameter.working.shares_storage(parameter.master);
  const int64_t copy = has_copy ? Device::charged_size(parameter.working.bytes()) : 0;
  return {description.name, device, (parameter.master.defined() ? single : 0) + copy, single,
          single * static_cast<int64_t>(parameter.states.size() + (parameter.average.defined() ? 1 : 0))};
}

}  // namespace

std::vector<Placement> placements(const layers::Graph& graph, const Executor& executor) {
  std::vector<Placement> all;
  const std::vector<int>& device_of_stage = executor.layout().device_of_stage;
  for (const auto& stage : executor.stages()) {
    const int device = device_of_stage[stage->index()];
    for (const auto& parameter : stage->parameters()) all.push_back(placement_of(graph.parameters()[parameter.index], parameter, device));
    for (const auto& statistics : stage->statistics().entries()) {
      const int64_t both = 2 * Device::charged_size(statistics.running.mean.bytes());
      all.push_back({graph.statistics()[statistics.index].name, device, both, 0, statistics.average.mean.defined() ? both : 0});
    }
  }
  return all;
}

}  // namespace sluice::parallel
