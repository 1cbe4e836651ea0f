#include "parallel/run/placement.h"

#include "parallel/run/executor.h"

namespace sluice::parallel {

namespace {

Placement placement_of(const layers::Graph::Parameter& description, const Stage::Parameter& parameter, int device) {
  const auto charged = [](int64_t elements) { return Device::charged_size(elements * static_cast<int64_t>(size_of(DType::f32))); };
  const int64_t whole = charged(description.spec.shape.elements()), own = parameter.owned ? charged(parameter.range.count) : 0;
  const bool is_one = parameter.working.shares_storage(parameter.master);
  const int64_t value = is_one ? Device::charged_size(parameter.working.bytes()) : own + Device::charged_size(parameter.working.bytes());
  int64_t of_states = parameter.average.defined() ? own : 0;
  for (const Tensor& state : parameter.states) of_states += Device::charged_size(state.bytes());
  return {description.name, device, value, description.frozen ? 0 : whole, of_states};
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
