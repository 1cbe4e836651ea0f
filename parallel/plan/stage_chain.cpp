#include "parallel/plan/stage_chain.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "parallel/program/dataflow.h"

namespace sluice::parallel {

namespace {

/// Transfers to one stage that follow each other go as one: the last of them arrives when that one does.
void append(std::vector<StageTransfer>& transfers, const StageTransfer& next) {
  if (!transfers.empty() && transfers.back().from == next.from && transfers.back().to == next.to)
    transfers.back().bytes += next.bytes;
  else
    transfers.push_back(next);
}

/// Transfers between stages as those between the wholes that they are parts of, one a pair, where a pair first sends.
std::vector<StageTransfer> between_wholes(const std::vector<StageTransfer>& parts, const std::vector<int>& whole_of_part) {
  std::vector<StageTransfer> wholes;
  std::map<std::pair<int, int>, size_t> place;  // by ends
  for (const StageTransfer& part : parts) {
    const int from = whole_of_part[part.from], to = whole_of_part[part.to];
    if (from == to) continue;
    const auto [found, is_new] = place.try_emplace({from, to}, wholes.size());
    if (is_new) wholes.push_back({from, to, 0});
    wholes[found->second].bytes += part.bytes;
  }
  return wholes;
}

/// As `lower` sends them.
void add_transfers(const Topology& topology, const ModelCost& model, const Partition& partition, StageCosts& chain) {
  const std::vector<int> one_device(partition.sizes.size(), 0);
  const std::vector<bool> keep(topology.node_count(), false);
  const Dataflow flow = dataflow({topology, partition, one_device, keep, 1, true});
  const auto as_stages = [&](const Transfer& transfer) {
    return StageTransfer{transfer.from, transfer.to, static_cast<double>(model.nodes[topology.node_of(transfer.value)].wire_bytes)};
  };
  for (const StageFlow& stage : flow.stages) {
    for (const Transfer& transfer : stage.activations_out) append(chain.activations, as_stages(transfer));
    for (const Transfer& transfer : stage.gradients_out) append(chain.gradients, as_stages(transfer));
  }
  for (const auto& [payload, tied, consumer, from, to] : flow.tied_gradients)
    chain.tied_gradients.push_back({from, to, model.tied_wire.at(tied).gradient});
  for (const auto& [payload, tied, consumer, from, to] : flow.tied_weights)
    chain.tied_weights.push_back({from, to, model.tied_wire.at(tied).weight});
}

}  // namespace

StageCosts whole_chain(const StageCosts& segments, const std::vector<int>& counts) {
  StageCosts whole;
  whole.links = segments.links;
  whole.norm = segments.norm;
  constexpr std::vector<double> StageCosts::*kSummed[] = {
      &StageCosts::forward,   &StageCosts::backward, &StageCosts::input_gradient,   &StageCosts::weight_gradient,
      &StageCosts::recompute, &StageCosts::kept,     &StageCosts::kept_for_weights, &StageCosts::step};
  size_t first = 0;
  std::vector<int> stage_of;  // by segment
  for (const int count : counts) {
    stage_of.insert(stage_of.end(), count, static_cast<int>(whole.forward.size()));
    for (const auto part : kSummed)
      (whole.*part).push_back(std::accumulate((segments.*part).begin() + first, (segments.*part).begin() + first + count, 0.0));
    first += count;
  }
  const StageTransfers parts = transfers_of(segments, static_cast<int>(stage_of.size()));
  whole.activations = between_wholes(parts.activations, stage_of);
  whole.gradients = between_wholes(parts.gradients, stage_of);
  whole.tied_gradients = between_wholes(segments.tied_gradients, stage_of);
  whole.tied_weights = between_wholes(segments.tied_weights, stage_of);
  return whole;
}

StageCosts chain_of(const Topology& topology, const ModelCost& model, const Partition& partition, const std::vector<StageCost>& stages,
                    const Links& links) {
  StageCosts chain;
  for (const StageCost& stage : stages) {
    chain.forward.push_back(stage.forward);
    chain.backward.push_back(stage.backward);
    chain.input_gradient.push_back(stage.input_gradient);
    chain.weight_gradient.push_back(stage.weight_gradient);
    chain.recompute.push_back(stage.recompute);
    chain.kept.push_back(static_cast<double>(stage.kept_bytes));
    chain.kept_for_weights.push_back(static_cast<double>(stage.deferred_bytes));
    chain.step.push_back(stage.step);
  }
  chain.links = links;
  chain.norm = model.norm;
  add_transfers(topology, model, partition, chain);
  return chain;
}

StageCosts slowed(StageCosts chain, const std::vector<int>& device_of_stage, const std::vector<double>& factors) {
  for (const auto part :
       {&StageCosts::forward, &StageCosts::backward, &StageCosts::input_gradient, &StageCosts::weight_gradient, &StageCosts::recompute})
    for (size_t stage = 0; stage < (chain.*part).size(); ++stage) (chain.*part)[stage] *= factors[device_of_stage[stage]];
  return chain;
}

SimulationCosts simulation_costs(const Layout& layout, const ModelCosts& model, const Links& links, const std::vector<int64_t>& peaks) {
  SimulationCosts costs;
  costs.step.assign(layout.devices, 0);
  std::vector<StageCost> stages;
  const size_t of_replica = layout.partition.sizes.size();
  for (size_t first = 0; first < layout.device_of_stage.size(); first += of_replica) {
    const auto begin = layout.device_of_stage.begin() + static_cast<ptrdiff_t>(first);
    const std::vector<int> placement(begin, begin + static_cast<ptrdiff_t>(of_replica));
    std::ranges::move(stage_costs(layout.topology, model, layout.partition, placement, layout.rematerialize), std::back_inserter(stages));
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int device = layout.device_of_stage[stage];
    const double factor = model.on(device).crowding.factor(peaks[device]);
    costs.forward.push_back(factor * stages[stage].forward);
    costs.backward.push_back(factor * stages[stage].backward);
    costs.input_gradient.push_back(factor * stages[stage].input_gradient);
    costs.weight_gradient.push_back(factor * stages[stage].weight_gradient);
    costs.recompute.push_back(factor * stages[stage].recompute);
    costs.step[device] += stages[stage].step / (layout.replication.shards() ? layout.replication.replicas : 1);
  }
  for (const int64_t bytes : model.any().input_bytes) costs.value_bytes.push_back(static_cast<double>(bytes));
  for (const NodeCost& node : model.any().nodes) costs.value_bytes.push_back(static_cast<double>(node.wire_bytes));
  costs.links = links;
  costs.norm = model.any().norm;
  costs.tied = model.any().tied_wire;
  return costs;
}

}  // namespace sluice::parallel
