#include "parallel/plan/stage_cost.h"

#include <algorithm>
#include <cmath>

#include "parallel/program/dataflow.h"

namespace sluice::parallel {

namespace {

/// Walks one stage's nodes as the stage does and follows which values stay.
class StageWalk {
 public:
  StageWalk(const Topology& topology, const ModelCost& model, int first, int end, const std::vector<bool>& rematerialize)
      : topology_(topology),
        model_(model),
        first_(first),
        end_(end),
        recomputed_(recomputed_nodes(topology, rematerialize, first, end)),
        values_(end - first) {
    for (int node = first; node < end; ++node) values_[node - first].value = topology.value_of(node);
    for (int node = first; node < end; ++node) {
      for (int value : topology.nodes[node].inputs) note_use(value, node);
      note_maker(node);
    }
  }

  StageCost run() {
    for (int node = first_; node < end_; ++node) add_times(node);
    add_copies();
    for (const Life& life : values_) {
      if (life.kept) cost_.kept_bytes += life.bytes;
      if (life.on_tape()) all_tapes_ += life.bytes;
    }
    for (int node = first_; node < end_; ++node) {
      if (!again(node)) cost_.kept_bytes += nodes(node).tape_bytes;
      all_tapes_ += nodes(node).tape_bytes;
    }
    if (recomputes_) cost_.recomputed_bytes = all_tapes_ - cost_.kept_bytes;
    walk_forward();
    if (recomputes_) walk_recompute();
    walk_backward();
    return cost_;
  }

 private:
  struct Life {
    int value = -1;
    int64_t bytes = 0;
    int last_use = -1, last_recompute_use = -1;
    bool kept = false;      ///< from F to B, by a tape or for R
    int first_holder = -1;  ///< of the nodes on whose tape it is, once all are recorded: the backward of that one lets it go
    bool on_tape() const { return first_holder >= 0; }
  };

  const NodeCost& nodes(int node) const { return model_.nodes[node]; }
  bool is_here(int node) const { return node >= first_ && node < end_; }
  bool again(int node) const { return recomputed_[node - first_]; }

  /// Values made here come first, in the order of their nodes; then those from elsewhere, which are few.
  size_t index_of(int value) {
    if (const int maker = topology_.node_of(value); is_here(maker)) return maker - first_;
    for (size_t i = end_ - first_; i < values_.size(); ++i)
      if (values_[i].value == value) return i;
    values_.emplace_back().value = value;
    return values_.size() - 1;
  }
  Life& life_of(int value) { return values_[index_of(value)]; }

  int64_t bytes_of(int value) const {
    const int node = topology_.node_of(value);
    return node < 0 ? model_.input_bytes[value] : nodes(node).output_bytes;
  }

  /// Visits the values that a node reads or makes, each once.
  template <class Visit>
  void for_each_touched(int node, Visit visit) {
    const auto& inputs = topology_.nodes[node].inputs;
    for (auto value = inputs.begin(); value != inputs.end(); ++value)
      if (std::find(inputs.begin(), value, *value) == value) visit(life_of(*value));
    visit(values_[node - first_]);
  }

  void note_use(int value, int node) {
    Life& life = life_of(value);
    life.bytes = bytes_of(value);
    life.last_use = node;
    if (again(node)) life.last_recompute_use = node;
    bool on_tape = false;
    const auto& inputs = topology_.nodes[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) on_tape = on_tape || (inputs[i] == value && nodes(node).keeps_input[i]);
    if (on_tape && !life.on_tape()) life.first_holder = node;
    const int maker = topology_.node_of(value);
    const bool maker_again = maker >= first_ && again(maker);
    life.kept = life.kept || (again(node) ? !maker_again : on_tape);
  }

  void note_maker(int node) {
    Life& life = values_[node - first_];
    life.bytes = nodes(node).output_bytes;
    if (nodes(node).keeps_output) life.first_holder = node;
    life.kept = life.kept || (nodes(node).keeps_output && !again(node));
    recomputes_ = recomputes_ || again(node);
  }

  void add_times(int node) {
    const NodeCost& cost = nodes(node);
    cost_.forward += cost.forward;
    cost_.backward += cost.backward;
    cost_.input_gradient += cost.input_gradient;
    cost_.weight_gradient += cost.weight_gradient;
    if (again(node)) cost_.recompute += cost.recompute;
    cost_.step += cost.step;
    cost_.state_bytes += cost.state_bytes;
    cost_.gradient_bytes += cost.gradient_bytes;
    cost_.deferred_bytes += cost.deferred_bytes;
  }

  /// Of values that cross an end of the stage: what goes is copied where it leaves, and a gradient once more where it arrives.
  void add_copies() {
    for (size_t i = 0; i < values_.size(); ++i) {
      const int maker = topology_.node_of(values_[i].value);
      const double copy = maker < 0 ? 0 : nodes(maker).copy;
      if (copy == 0 || (is_here(maker) && !is_read_behind(values_[i].value))) continue;
      if (is_here(maker)) cost_.forward += copy;
      if (!topology_.has_gradient(maker)) continue;
      cost_.backward += copy;
      cost_.input_gradient += copy;
    }
  }
  bool is_read_behind(int value) const {
    return std::any_of(topology_.nodes.begin() + end_, topology_.nodes.end(),
                       [&](const Topology::Node& node) { return std::ranges::find(node.inputs, value) != node.inputs.end(); });
  }

  /// Received values are there from the start; loaded and made ones from their first use until the last, or until B when kept.
  void walk_forward() {
    int64_t live = 0;
    std::vector<bool> present(values_.size(), false);
    const auto bring = [&](size_t value) {
      if (!present[value]) live += values_[value].bytes;
      present[value] = true;
    };
    for (size_t i = end_ - first_; i < values_.size(); ++i)
      if (topology_.node_of(values_[i].value) >= 0) bring(i);
    for (int node = first_; node < end_; ++node) {
      const NodeCost& cost = nodes(node);
      for (int value : topology_.nodes[node].inputs) bring(index_of(value));
      const bool recorded = !again(node);
      cost_.forward_peak_bytes = std::max(cost_.forward_peak_bytes, live + (recorded ? cost.forward_peak_bytes : cost.bare_forward_bytes));
      live += recorded ? cost.tape_bytes : 0;
      bring(node - first_);
      for_each_touched(node, [&](const Life& life) {
        if (!life.kept && std::max(life.last_use, topology_.node_of(life.value)) == node) live -= life.bytes;
      });
    }
  }

  /// What recomputed nodes make stays until B when a tape holds it, else until its last use.
  void walk_recompute() {
    int64_t live = 0;
    for (int node = first_; node < end_; ++node) {
      if (!again(node)) continue;
      const NodeCost& cost = nodes(node);
      cost_.recompute_peak_bytes = std::max(cost_.recompute_peak_bytes, live + cost.forward_peak_bytes);
      live += cost.tape_bytes + (values_[node - first_].kept ? 0 : cost.output_bytes);
      for_each_touched(node, [&](const Life& life) {
        const int maker = topology_.node_of(life.value);
        const bool is_transient = is_here(maker) && again(maker) && !life.kept && !life.on_tape();
        if (is_transient && std::max(life.last_recompute_use, maker) == node) live -= life.bytes;
      });
    }
  }

  /// Tapes go one by one from the last node; gradients of values pile up until their maker's turn.
  void walk_backward() {
    int64_t gradients = 0, gone = 0, deferred = 0, of_parameters = 0;
    std::vector<int64_t> sums(values_.size(), 0);
    const auto add = [&](size_t value) {
      if (sums[value] == 0) gradients += sums[value] = values_[value].bytes;
    };
    for (int node = end_ - 1; node >= first_; --node) {
      const NodeCost& cost = nodes(node);
      if (!topology_.has_gradient(node)) continue;
      add(node - first_);
      const int64_t peak = gradients - gone + cost.backward_peak_bytes;
      cost_.backward_peak_bytes = std::max(cost_.backward_peak_bytes, peak);
      cost_.first_backward_peak_bytes = std::max(cost_.first_backward_peak_bytes, of_parameters + peak);
      cost_.input_gradient_bytes = std::max(cost_.input_gradient_bytes, deferred + peak);
      cost_.weight_gradient_bytes = std::max(cost_.weight_gradient_bytes, cost.weight_gradient_bytes);
      cost_.first_weight_gradient_bytes = std::max(cost_.first_weight_gradient_bytes, of_parameters + cost.weight_gradient_bytes);
      of_parameters += cost.gradient_bytes;
      gradients -= sums[node - first_];
      gone += cost.tape_bytes;
      for_each_touched(node, [&](const Life& life) { gone += life.first_holder == node ? life.bytes : 0; });
      deferred += cost.deferred_bytes;
      for (int value : topology_.nodes[node].inputs)
        if (topology_.contributes(node, value)) add(index_of(value));
    }
  }

  const Topology& topology_;
  const ModelCost& model_;
  const int first_, end_;
  const std::vector<bool> recomputed_;  // of the stage's nodes
  std::vector<Life> values_;
  bool recomputes_ = false;
  int64_t all_tapes_ = 0;
  StageCost cost_;
};

/// Parameters that a stage uses but does not own have a copy there.
void add_tied_copies(const Topology& topology, const ModelCost& model, int first, int end, StageCost& cost) {
  for (size_t i = 0; i < topology.tied.size(); ++i) {
    const auto& nodes = topology.tied[i].nodes;
    const bool owned = nodes.front() >= first && nodes.front() < end;
    const bool used = std::ranges::any_of(nodes, [&](int node) { return node >= first && node < end; });
    if (used && !owned) cost.state_bytes += model.tied_bytes[i];
  }
}

void add_shared(const ModelCost& model, int first, int end, StageCost& cost) {
  for (const SharedCost& shared : model.shared)
    if (std::ranges::any_of(shared.nodes, [&](int node) { return node >= first && node < end; })) cost.state_bytes += shared.bytes;
}

}  // namespace

double Crowding::factor(int64_t held) const {
  if (most <= 0 || bytes <= 0 || held <= bytes) return 1;
  return 1 + most * std::min(1.0, std::log2(static_cast<double>(held) / static_cast<double>(bytes)));
}

StageCost stage_cost(const Topology& topology, const ModelCost& model, int first, int end, const std::vector<bool>& rematerialize) {
  StageCost cost = StageWalk(topology, model, first, end, rematerialize).run();
  add_tied_copies(topology, model, first, end, cost);
  add_shared(model, first, end, cost);
  return cost;
}

std::vector<StageCost> stage_costs(const Topology& topology, const ModelCosts& costs, const Partition& partition,
                                   const std::vector<int>& device_of_stage, const std::vector<bool>& rematerialize) {
  std::vector<StageCost> stages;
  for (int stage = 0, first = 0; stage < partition.stage_count(); first += partition.sizes[stage++])
    stages.push_back(stage_cost(topology, costs.on(device_of_stage[stage]), first, first + partition.sizes[stage], rematerialize));
  return stages;
}

int64_t device_peak_bytes(const Schedule& schedule, const std::vector<StageCost>& stages, int device) {
  int64_t live = 0, peak = 0;
  std::vector<bool> has_gradients(stages.size(), false);
  for (int stage = 0; stage < schedule.stage_count(); ++stage)
    if (schedule.device_of_stage[stage] == device) live += stages[stage].state_bytes - stages[stage].gradient_bytes;
  const auto touch = [&](int64_t more) { peak = std::max(peak, live + more); };
  touch(0);
  for (const auto& action : schedule.devices[device]) {
    const StageCost& cost = stages[action.stage];
    const bool is_first = !has_gradients[action.stage];
    if (action.kind == Compute::forward) {
      touch(cost.forward_peak_bytes);
      live += cost.kept_bytes;
    } else if (action.kind == Compute::weight_gradient) {
      touch(is_first ? cost.first_weight_gradient_bytes : cost.weight_gradient_bytes);
      live -= cost.deferred_bytes;
    } else {
      const int64_t whole = is_first ? cost.first_backward_peak_bytes : cost.backward_peak_bytes;
      touch(cost.recompute_peak_bytes);
      touch(cost.recomputed_bytes + (action.kind == Compute::backward ? whole : cost.input_gradient_bytes));
      live -= cost.kept_bytes;
      if (action.kind == Compute::input_gradient) live += cost.deferred_bytes;
    }
    if (is_first && (action.kind == Compute::backward || action.kind == Compute::weight_gradient)) {
      has_gradients[action.stage] = true;
      live += cost.gradient_bytes;
    }
    touch(0);
  }
  return peak;
}

InFlight micro_batches_in_flight(const Schedule& schedule) {
  const std::vector<int> none(schedule.stage_count(), 0);
  InFlight most{none, none}, now{none, none};
  for (const auto& order : schedule.devices)
    for (const auto& [kind, stage, micro_batch] : order) {
      if (kind == Compute::forward) most.forwards[stage] = std::max(most.forwards[stage], ++now.forwards[stage]);
      if (kind == Compute::backward || kind == Compute::input_gradient) --now.forwards[stage];
      if (kind == Compute::input_gradient) most.deferred[stage] = std::max(most.deferred[stage], ++now.deferred[stage]);
      if (kind == Compute::weight_gradient) --now.deferred[stage];
    }
  return most;
}

}  // namespace sluice::parallel
