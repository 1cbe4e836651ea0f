#include "parallel/stage_chain.h"

#include <algorithm>
#include <numeric>

namespace sluice::parallel {

StageCosts whole_chain(const StageCosts& segments, const std::vector<int>& counts) {
  StageCosts whole;
  whole.latency = segments.latency;
  constexpr std::vector<double> StageCosts::*kSummed[] = {&StageCosts::forward,         &StageCosts::backward,  &StageCosts::input_gradient,
                                                          &StageCosts::weight_gradient, &StageCosts::recompute, &StageCosts::kept,
                                                          &StageCosts::kept_for_weights};
  size_t first = 0;
  for (const int count : counts) {
    for (const auto part : kSummed)
      (whole.*part).push_back(std::accumulate((segments.*part).begin() + first, (segments.*part).begin() + first + count, 0.0));
    first += count;
    whole.transfer.push_back(segments.transfer[first - 1]);
  }
  return whole;
}

StageCosts chain_of(const Topology& topology, const ModelCost& model, const Partition& partition, const std::vector<StageCost>& stages,
                    const std::vector<int>& device_of_stage, const Links& links) {
  StageCosts chain;
  for (const StageCost& stage : stages) {
    chain.forward.push_back(stage.forward);
    chain.backward.push_back(stage.backward);
    chain.input_gradient.push_back(stage.input_gradient);
    chain.weight_gradient.push_back(stage.weight_gradient);
    chain.recompute.push_back(stage.recompute);
    chain.kept.push_back(static_cast<double>(stage.kept_bytes));
    chain.kept_for_weights.push_back(static_cast<double>(stage.deferred_bytes));
  }
  std::vector<int> last_use(topology.value_count(), -1);
  for (int node = 0; node < topology.node_count(); ++node)
    for (int value : topology.nodes[node].inputs) last_use[value] = node;
  for (int stage = 0; stage < partition.stage_count(); ++stage) {
    double bytes = 0;
    for (int node = partition.first_node(stage); node < partition.end_node(stage); ++node)
      if (last_use[topology.value_of(node)] >= partition.end_node(stage)) bytes += static_cast<double>(model.nodes[node].output_bytes);
    const Link link = links.between(device_of_stage[stage], device_of_stage[std::min(stage + 1, partition.stage_count() - 1)]);
    chain.transfer.push_back(link.wire_seconds(bytes));
    chain.latency = std::max(chain.latency, link.latency_seconds);
  }
  return chain;
}

StageCosts slowed(StageCosts chain, const std::vector<int>& device_of_stage, const std::vector<double>& factors) {
  for (const auto part :
       {&StageCosts::forward, &StageCosts::backward, &StageCosts::input_gradient, &StageCosts::weight_gradient, &StageCosts::recompute})
    for (size_t stage = 0; stage < (chain.*part).size(); ++stage) (chain.*part)[stage] *= factors[device_of_stage[stage]];
  return chain;
}

}  // namespace sluice::parallel
