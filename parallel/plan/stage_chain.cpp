#include "parallel/plan/stage_chain.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "parallel/program/dataflow.h"

namespace sluice::parallel {

namespace {

/// Links by their ends.
using LinkMap = std::map<std::pair<int, int>, StageLink>;

StageLink& between(LinkMap& links, int from, int to) {
  return links.try_emplace({from, to}, StageLink{from, to, 0, 0, false}).first->second;
}

std::vector<StageLink> listed(const LinkMap& links) {
  std::vector<StageLink> list;
  for (const auto& [ends, link] : links) list.push_back(link);
  return list;
}

std::vector<StageLink> links_between(const Topology& topology, const ModelCost& model, const Partition& partition,
                                     const std::vector<int>& device_of_stage, const Links& links) {
  const std::vector<int> one_device(partition.sizes.size(), 0);
  const std::vector<bool> keep(topology.node_count(), false);
  const Dataflow flow = dataflow({topology, partition, one_device, keep, 1, true});
  const auto seconds = [&](const Transfer& transfer) {
    const auto bytes = static_cast<double>(model.nodes[topology.node_of(transfer.value)].output_bytes);
    return links.between(device_of_stage[transfer.from], device_of_stage[transfer.to]).wire_seconds(bytes);
  };
  LinkMap found;
  for (const StageFlow& stage : flow.stages) {
    for (const Transfer& transfer : stage.activations_out) between(found, transfer.from, transfer.to).activation += seconds(transfer);
    for (const Transfer& transfer : stage.gradients_out) {
      StageLink& back = between(found, transfer.to, transfer.from);
      back.gradient += seconds(transfer);
      back.has_gradient = true;
    }
  }
  return listed(found);
}

}  // namespace

StageCosts whole_chain(const StageCosts& segments, const std::vector<int>& counts) {
  StageCosts whole;
  whole.latency = segments.latency;
  constexpr std::vector<double> StageCosts::*kSummed[] = {&StageCosts::forward,         &StageCosts::backward,  &StageCosts::input_gradient,
                                                          &StageCosts::weight_gradient, &StageCosts::recompute, &StageCosts::kept,
                                                          &StageCosts::kept_for_weights};
  size_t first = 0;
  std::vector<int> stage_of;  // by segment
  for (const int count : counts) {
    stage_of.insert(stage_of.end(), count, static_cast<int>(whole.forward.size()));
    for (const auto part : kSummed)
      (whole.*part).push_back(std::accumulate((segments.*part).begin() + first, (segments.*part).begin() + first + count, 0.0));
    first += count;
  }
  LinkMap links;
  for (const StageLink& link : links_of(segments, static_cast<int>(stage_of.size()))) {
    if (stage_of[link.from] == stage_of[link.to]) continue;
    StageLink& outer = between(links, stage_of[link.from], stage_of[link.to]);
    outer.activation += link.activation;
    outer.gradient += link.gradient;
    outer.has_gradient = outer.has_gradient || link.has_gradient;
  }
  whole.links = listed(links);
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
  chain.links = links_between(topology, model, partition, device_of_stage, links);
  for (const StageLink& link : chain.links)
    chain.latency = std::max(chain.latency, links.between(device_of_stage[link.from], device_of_stage[link.to]).latency_seconds);
  return chain;
}

StageCosts slowed(StageCosts chain, const std::vector<int>& device_of_stage, const std::vector<double>& factors) {
  for (const auto part :
       {&StageCosts::forward, &StageCosts::backward, &StageCosts::input_gradient, &StageCosts::weight_gradient, &StageCosts::recompute})
    for (size_t stage = 0; stage < (chain.*part).size(); ++stage) (chain.*part)[stage] *= factors[device_of_stage[stage]];
  return chain;
}

}  // namespace sluice::parallel
