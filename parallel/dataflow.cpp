#include "parallel/dataflow.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/error.h"

namespace sluice::parallel {

namespace {

std::string topology_fault(const Topology& topology) {
  if (static_cast<int>(topology.differentiable.size()) != topology.value_count())
    return join("differentiable has ", topology.differentiable.size(), " entries for ", topology.value_count(), " values");
  for (int node = 0; node < topology.node_count(); ++node)
    for (int value : topology.nodes[node].inputs)
      if (value < 0 || value >= topology.value_of(node))
        return join("node '", topology.nodes[node].name, "' takes value ", value, ", which no earlier node makes");
  for (const auto& tied : topology.tied) {
    const auto& nodes = tied.nodes;
    if (nodes.empty() || nodes.front() < 0 || nodes.back() >= topology.node_count() ||
        std::adjacent_find(nodes.begin(), nodes.end(), std::greater_equal<>()) != nodes.end())
      return join("tied parameter '", tied.parameter, "' needs an ascending list of nodes of the model");
  }
  return {};
}

std::string partition_fault(const Layout& layout) {
  const int nodes = layout.topology.node_count();
  const auto& sizes = layout.partition.sizes;
  if (sizes.empty() || *std::min_element(sizes.begin(), sizes.end()) < 1) return "every stage needs at least one node";
  if (layout.partition.node_count() != nodes)
    return join("the partition has ", layout.partition.node_count(), " nodes and the model ", nodes);
  if (static_cast<int>(layout.rematerialize.size()) != nodes)
    return join("rematerialize has ", layout.rematerialize.size(), " entries for ", nodes, " nodes");
  if (layout.device_of_stage.size() != sizes.size())
    return join("the partition has ", sizes.size(), " stages and the schedule ", layout.device_of_stage.size());
  for (int device : layout.device_of_stage)
    if (device < 0 || device >= layout.devices) return join("a stage is on device ", device, " of ", layout.devices);
  return {};
}

/// Collects the transfers of each stage and of the end of the step.
class Builder {
 public:
  explicit Builder(const Layout& layout) : layout_(layout), topology_(layout.topology) {
    flow_.stages.resize(layout.partition.stage_count());
    for (int stage = 0; stage < layout.partition.stage_count(); ++stage)
      stage_of_.insert(stage_of_.end(), layout.partition.sizes[stage], stage);
  }

  Dataflow build() {
    consumers_.resize(topology_.value_count());
    for (int node = 0; node < topology_.node_count(); ++node) add_node(node);
    for (const Transfer& transfer : activations_) add_activation(transfer);
    if (layout_.training) {
      for (int value = topology_.value_count() - 1; value >= 0; --value) add_gradients(value);
      for (std::size_t tied = 0; tied < topology_.tied.size(); ++tied) add_tied(static_cast<int>(tied));
      add_norms();
    }
    return std::move(flow_);
  }

 private:
  bool from_elsewhere(int value, int stage) const {
    const int producer = topology_.node_of(value);
    return producer >= 0 && stage_of_[producer] != stage;
  }

  void add_node(int node) {
    const int stage = stage_of_[node];
    const bool recomputed = layout_.training && layout_.rematerialize[node];
    if (recomputed) flow_.stages[stage].recomputes = true;
    if (layout_.training && topology_.nodes[node].has_statistics) flow_.stages[stage].commits_statistics = true;
    for (int value : topology_.nodes[node].inputs) {
      auto& consumers = consumers_[value];
      if (consumers.empty() || consumers.back() != node) consumers.push_back(node);
      if (!from_elsewhere(value, stage)) continue;
      const Transfer transfer{Payload::activation, value, -1, stage_of_[topology_.node_of(value)], stage};
      activations_.insert(transfer);
      if (recomputed) recompute_inputs_.insert(transfer);
    }
  }

  /// Transfers come in ascending (value, from, to).
  void add_activation(const Transfer& transfer) {
    StageFlow& to = flow_.stages[transfer.to];
    to.activations_in.push_back(transfer);
    if (recompute_inputs_.contains(transfer)) to.recompute_inputs.push_back(transfer);
    auto& out = flow_.stages[transfer.from].activations_out;
    const auto nearer = [](const Transfer& a, const Transfer& b) { return std::tie(a.to, a.value) < std::tie(b.to, b.value); };
    out.insert(std::upper_bound(out.begin(), out.end(), transfer, nearer), transfer);
  }

  /// A consumer contributes only when its own value has a gradient.
  void add_gradients(int value) {
    auto& consumers = consumers_[value];
    std::erase_if(consumers, [&](int node) { return !topology_.differentiable[topology_.value_of(node)]; });
    if (!topology_.differentiable[value] || consumers.empty()) return;
    const int last_stage = stage_of_[consumers.back()];
    for (std::size_t i = consumers.size(); i-- > 0;) {
      const int stage = stage_of_[consumers[i]];
      if (!from_elsewhere(value, stage)) continue;
      const bool is_summed_into_a_lower_one = stage == last_stage && i > 0 && stage_of_[consumers[i - 1]] == last_stage;
      if (is_summed_into_a_lower_one) continue;
      const Transfer transfer{Payload::gradient, value, consumers[i], stage, stage_of_[topology_.node_of(value)]};
      flow_.stages[transfer.from].gradients_out.push_back(transfer);
      flow_.stages[transfer.to].gradients_in.push_back(transfer);
    }
  }

  void add_tied(int tied) {
    const int owner = stage_of_[topology_.tied[tied].nodes.front()];
    int previous = owner;
    for (int node : topology_.tied[tied].nodes) {
      const int stage = stage_of_[node];
      if (stage == owner) continue;
      flow_.tied_gradients.push_back({Payload::tied_gradient, tied, node, stage, owner});
      if (stage != previous) flow_.tied_weights.push_back({Payload::tied_weight, tied, node, owner, stage});
      previous = stage;
    }
  }

  void add_norms() {
    const int root = layout_.device_of_stage[0];
    for (int device = 0; device < layout_.devices; ++device) {
      if (device == root) continue;
      flow_.norm_parts.push_back({Payload::norm_part, -1, -1, device, root});
      flow_.norms.push_back({Payload::norm, -1, -1, root, device});
    }
  }

  const Layout& layout_;
  const Topology& topology_;
  std::vector<int> stage_of_;                // by node
  std::vector<std::vector<int>> consumers_;  // by value, ascending
  std::set<Transfer> activations_, recompute_inputs_;
  Dataflow flow_;
};

Buffer buffer(const Transfer& transfer, int stage, int micro_batch) {
  const auto kind = transfer.payload == Payload::activation ? Buffer::Kind::value : Buffer::Kind::gradient;
  return {kind, stage, micro_batch, transfer.value, transfer.consumer};
}

}  // namespace

std::string mismatch(const Layout& layout) {
  const std::string fault = topology_fault(layout.topology);
  return fault.empty() ? partition_fault(layout) : fault;
}

Dataflow dataflow(const Layout& layout) { return Builder(layout).build(); }

Buffer sent_buffer(const Transfer& transfer, int micro_batch) { return buffer(transfer, transfer.from, micro_batch); }

Buffer received_buffer(const Transfer& transfer, int micro_batch) { return buffer(transfer, transfer.to, micro_batch); }

Buffer tape_buffer(int stage, int micro_batch) { return {Buffer::Kind::tape, stage, micro_batch}; }

}  // namespace sluice::parallel
