#include "parallel/program/dataflow.h"

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
  for (std::size_t value = 0; value < topology.inputs.size(); ++value)
    if (topology.differentiable[value]) return join("input '", topology.inputs[value], "' cannot have a gradient: no stage makes it");
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
  if (const std::string fault = fault_of(layout.replication); !fault.empty()) return fault;
  const int replicas = layout.replication.replicas;
  if (layout.device_of_stage.size() != sizes.size() * static_cast<std::size_t>(replicas))
    return replicas == 1 ? join("the partition has ", sizes.size(), " stages and the schedule ", layout.device_of_stage.size())
                         : join("the partition has ", sizes.size(), " stages for each of ", replicas, " replicas and the schedule ",
                                layout.device_of_stage.size(), " in all");
  for (int device : layout.device_of_stage)
    if (device < 0 || device >= layout.devices) return join("a stage is on device ", device, " of ", layout.devices);
  return {};
}

/// Collects what each node does and the transfers of each stage and of the end of the step.
class Builder {
 public:
  explicit Builder(const Layout& layout)
      : layout_(layout), topology_(layout.topology), stages_(layout.partition.stage_count()), replicas_(layout.replication.replicas) {
    flow_.stages.resize(layout.partition.stage_count());
    flow_.nodes.resize(topology_.node_count());
    for (int stage = 0; stage < layout.partition.stage_count(); ++stage)
      stage_of_.insert(stage_of_.end(), layout.partition.sizes[stage], stage);
  }

  Dataflow build() {
    if (layout_.training)
      for (int stage = 0, first = 0; stage < layout_.partition.stage_count(); first += layout_.partition.sizes[stage++])
        add_recomputation(stage, first);
    consumers_.resize(topology_.value_count());
    for (int node = 0; node < topology_.node_count(); ++node) add_node(node);
    for (const Transfer& transfer : activations_) add_activation(transfer);
    if (layout_.training) {
      for (int value = topology_.value_count() - 1; value >= 0; --value) add_gradients(value);
      for (std::size_t tied = 0; tied < topology_.tied.size(); ++tied) add_tied(static_cast<int>(tied));
      add_norms();
    }
    add_replicas();
    if (layout_.training && replicas_ > 1) add_exchanges();
    return std::move(flow_);
  }

 private:
  bool from_elsewhere(int value, int stage) const {
    const int producer = topology_.node_of(value);
    return producer >= 0 && stage_of_[producer] != stage;
  }

  void add_recomputation(int stage, int first) {
    const auto again = recomputed_nodes(topology_, layout_.rematerialize, first, first + layout_.partition.sizes[stage]);
    for (std::size_t i = 0; i < again.size(); ++i) flow_.nodes[first + i].recomputed = again[i];
    flow_.stages[stage].recomputes = std::find(again.begin(), again.end(), true) != again.end();
  }

  void add_node(int node) {
    const int stage = stage_of_[node];
    NodeFlow& flow = flow_.nodes[node];
    flow.recorded = layout_.training && topology_.has_gradient(node);
    if (layout_.training && topology_.nodes[node].has_statistics) flow_.stages[stage].commits_statistics = true;
    for (int value : topology_.nodes[node].inputs) {
      auto& consumers = consumers_[value];
      if (topology_.contributes(node, value) && (consumers.empty() || consumers.back() != node)) consumers.push_back(node);
      if (!from_elsewhere(value, stage)) continue;
      const int maker = topology_.node_of(value);
      const Transfer transfer{Payload::activation, value, -1, stage_of_[maker], stage};
      flow_.nodes[maker].sent = true;
      activations_.insert(transfer);
      if (flow.recomputed) recompute_inputs_.insert(transfer);
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

  void add_gradients(int value) {
    const auto& consumers = consumers_[value];
    if (consumers.empty()) return;
    const int last_stage = stage_of_[consumers.back()];
    const auto in_last_stage = [&](int node) { return stage_of_[node] == last_stage; };
    const int lowest_of_last = *std::find_if(consumers.begin(), consumers.end(), in_last_stage);
    for (auto consumer = consumers.rbegin(); consumer != consumers.rend(); ++consumer) {
      const bool is_sent = from_elsewhere(value, stage_of_[*consumer]);
      const int under = !is_sent ? -1 : in_last_stage(*consumer) ? lowest_of_last : *consumer;
      flow_.nodes[*consumer].contributions.push_back({value, under});
      if (under == *consumer) add_gradient({Payload::gradient, value, under, stage_of_[under], stage_of_[topology_.node_of(value)]});
    }
  }

  void add_gradient(const Transfer& transfer) {
    flow_.stages[transfer.from].gradients_out.push_back(transfer);
    flow_.stages[transfer.to].gradients_in.push_back(transfer);
  }

  /// Every other stage that reads the parameter gets its new weight; those whose uses make gradients send them. Replicas that own a part each
  /// get that part of every use from all, and send it to all.
  void add_tied(int tied) {
    const auto& parameter = topology_.tied[tied];
    const int owner = stage_of_[parameter.nodes.front()];
    auto& uses = flow_.tied_uses.emplace_back();
    int previous = owner;
    for (int node : parameter.nodes) {
      const int stage = stage_of_[node];
      if (topology_.contributes(node, parameter)) uses.push_back(node);
      if (stage == owner) continue;
      if (topology_.contributes(node, parameter))
        between_replicas([&](int from, int to) {
          flow_.tied_gradients.push_back({Payload::tied_gradient, tied, node, from * stages_ + stage, to * stages_ + owner});
        });
      if (stage != previous)
        between_replicas([&](int from, int to) {
          if (from != to && !layout_.replication.shards()) return;  // its own owner has the whole weight
          flow_.tied_weights.push_back({Payload::tied_weight, tied, node, from * stages_ + owner, to * stages_ + stage});
        });
      previous = stage;
    }
  }

  /// In rounds, in each of which every replica sends to one and hears from one: nobody is sent to by all at once.
  template <class Visit>
  void between_replicas(const Visit& visit) const {
    for (int distance = 0; distance < replicas_; ++distance)
      for (int from = 0; from < replicas_; ++from) visit(from, (from + distance) % replicas_);
  }

  /// All replicas do what the first one does, with stages of their own.
  void add_replicas() {
    for (int stage = stages_; stage < replicas_ * stages_; ++stage) {
      StageFlow flow = flow_.stages[stage % stages_];
      for (auto* transfers : {&flow.activations_in, &flow.activations_out, &flow.gradients_in, &flow.gradients_out, &flow.recompute_inputs})
        for (Transfer& transfer : *transfers) {
          transfer.from += stage / stages_ * stages_;
          transfer.to += stage / stages_ * stages_;
        }
      flow_.stages.push_back(std::move(flow));
    }
  }

  /// What the replicas of a stage exchange at the end of a step.
  void add_exchanges() {
    auto& results = layout_.replication.shards() ? flow_.weight_shards : flow_.gradient_sums;
    const Payload result = layout_.replication.shards() ? Payload::weight_shard : Payload::gradient_sum;
    for (int stage = 0; stage < stages_; ++stage)
      between_replicas([&](int from, int to) {
        if (from == to) return;
        const auto transfer = [&](Payload payload) { return Transfer{payload, -1, -1, from * stages_ + stage, to * stages_ + stage}; };
        StageFlow &sender = flow_.stages[from * stages_ + stage], &receiver = flow_.stages[to * stages_ + stage];
        sender.shards_out.push_back(transfer(Payload::gradient_shard));
        receiver.shards_in.push_back(transfer(Payload::gradient_shard));
        results.push_back(transfer(result));
        if (!sender.commits_statistics) return;
        sender.statistics_out.push_back(transfer(Payload::statistics));
        receiver.statistics_in.push_back(transfer(Payload::statistics));
      });
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
  const int stages_, replicas_;              // stages of one replica
  std::vector<int> stage_of_;                // by node, of the first replica
  std::vector<std::vector<int>> consumers_;  // by value: those that contribute to its gradient, ascending
  std::set<Transfer> activations_, recompute_inputs_;
  Dataflow flow_;
};

Buffer buffer(const Transfer& transfer, int stage, int micro_batch) {
  if (transfer.payload == Payload::gradient_shard) return shard_buffer(stage, transfer.from, transfer.to);
  const auto kind = transfer.payload == Payload::activation ? Buffer::Kind::value : Buffer::Kind::gradient;
  return {kind, stage, micro_batch, transfer.value, transfer.consumer};
}

}  // namespace

std::string mismatch(const Layout& layout) {
  const std::string fault = topology_fault(layout.topology);
  return fault.empty() ? partition_fault(layout) : fault;
}

Dataflow dataflow(const Layout& layout) { return Builder(layout).build(); }

std::vector<bool> recomputed_nodes(const Topology& topology, const std::vector<bool>& rematerialize, int first, int end) {
  std::vector<bool> again(end - first, false);  // of nodes to come: whether a recomputed one reads its value
  for (int node = end - 1; node >= first; --node) {
    again[node - first] = rematerialize[node] && (again[node - first] || topology.has_gradient(node));
    if (!again[node - first]) continue;
    for (int value : topology.nodes[node].inputs)
      if (const int maker = topology.node_of(value); maker >= first) again[maker - first] = true;
  }
  return again;
}

Buffer sent_buffer(const Transfer& transfer, int micro_batch) { return buffer(transfer, transfer.from, micro_batch); }

Buffer received_buffer(const Transfer& transfer, int micro_batch) { return buffer(transfer, transfer.to, micro_batch); }

Buffer tape_buffer(int stage, int micro_batch) { return {Buffer::Kind::tape, stage, micro_batch}; }

Buffer shard_buffer(int holder, int from, int to) { return {Buffer::Kind::shard, holder, -1, from, to}; }

std::vector<Buffer> folded_buffers(const StageFlow& flow, int stage) {
  std::vector<Buffer> buffers{shard_buffer(stage, stage, stage)};
  for (const Transfer& transfer : flow.shards_in) buffers.push_back(received_buffer(transfer, -1));
  return buffers;
}

}  // namespace sluice::parallel
