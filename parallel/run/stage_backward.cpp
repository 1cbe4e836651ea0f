// The backward of a stage: through the tapes of its nodes, from the last to the first, and how the gradients of values are added up on the way.
#include <algorithm>
#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/padded_rows.h"
#include "core/profiler.h"
#include "core/where.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

void Stage::backward(int micro_batch) {
  run_backward(micro_batch, Pass::all);
  end_block(micro_batch);
}

void Stage::input_gradient(int micro_batch) { run_backward(micro_batch, Pass::inputs); }

void Stage::weight_gradient(int micro_batch) {
  MicroBatch& state = micro_batches_[micro_batch];
  for (int node = end_ - 1; node >= first_; --node) {
    const auto deferred = state.deferred.find(node);
    if (deferred == state.deferred.end()) continue;
    auto& [backward, parameters] = deferred->second;
    WhereScope scope({graph_.nodes()[node].name.c_str(), index_, micro_batch});
    const ProfilerRange range(*device_, graph_.nodes()[node].name);
    offer_accumulators(node, parameters);
    backward.run_weights();
    accumulate(node, backward, parameters);
    state.deferred.erase(deferred);
  }
  end_block(micro_batch);
}

std::map<int, Tensor> Stage::received_gradients(MicroBatch& state, int micro_batch) const {
  std::map<int, Tensor> sums;
  for (auto entry = state.gradients.rbegin(); entry != state.gradients.rend(); ++entry) {  // descending consumers of each value
    if (entry->second.defined()) add_part(sums[entry->first.first], std::move(entry->second));
  }
  if (is_here(loss_node_)) {
    const Tensor& value = losses_.at(micro_batch);
    sums[topology_.value_of(loss_node_)] = full(value.shape(), 1, value.dtype(), device_);
  }
  return sums;
}

void Stage::run_backward(int micro_batch, Pass pass) {
  MicroBatch& state = micro_batches_[micro_batch];
  auto sums = received_gradients(state, micro_batch);
  state.gradients.clear();
  for (int node = end_ - 1; node >= first_; --node) {
    const auto tape = state.tapes.find(node);
    const auto sum = sums.find(topology_.value_of(node));
    if (tape == state.tapes.end() || sum == sums.end() || !sum->second.defined()) continue;
    WhereScope scope({graph_.nodes()[node].name.c_str(), index_, micro_batch});
    const ProfilerRange range(*device_, graph_.nodes()[node].name);
    Backward backward(tape->second.root, std::move(sum->second));
    sums.erase(sum);
    begin_sums(node, backward, tape->second, sums);
    if (pass == Pass::all) {
      offer_accumulators(node, tape->second.parameters);
      backward.run();
    } else {
      backward.run_inputs();
    }
    distribute(state, node, backward, tape->second, sums);
    if (pass == Pass::all)
      accumulate(node, backward, tape->second.parameters);
    else if (backward.has_deferred())
      state.deferred.emplace(node, Deferred{std::move(backward), std::move(tape->second.parameters)});
    state.tapes.erase(tape);
  }
}

/// Gives the backward of a node that reads a value of this stage once what later nodes contributed to the value's gradient: it is added to
/// in that pass over memory where an op can. What the node returns then is the sum, as if its contribution had been added to it.
void Stage::begin_sums(int node, Backward& backward, const Tape& tape, std::map<int, Tensor>& sums) const {
  const auto& inputs = topology_.nodes[node].inputs;
  for (const auto& [value, consumer] : flow_.nodes[node].contributions) {
    const auto sum = sums.find(value);
    if (consumer >= 0 || sum == sums.end() || !sum->second.defined() || std::ranges::count(inputs, value) != 1) continue;
    const NodePtr& leaf = tape.inputs[std::ranges::find(inputs, value) - inputs.begin()];
    if (leaf && leaf->uses == 1) backward.begin_sum(leaf, std::exchange(sum->second, Tensor()));
  }
}

/// Adds the gradients of one node's inputs to the sums of this stage, or to what is sent to the producing stage. A value that the node
/// reads twice gets one contribution, so that sums do not depend on where the value was made.
void Stage::distribute(MicroBatch& state, int node, Backward& backward, const Tape& tape, std::map<int, Tensor>& sums) {
  for (const auto& [value, consumer] : flow_.nodes[node].contributions) {
    Tensor contribution;
    for (size_t i = 0; i < tape.inputs.size(); ++i) {
      Tensor gradient = topology_.nodes[node].inputs[i] == value ? backward.take(tape.inputs[i]) : Tensor();
      if (gradient.defined()) add_part(contribution, std::move(gradient));
    }
    watch("a gradient of the inputs", contribution);
    if (!contribution.defined()) continue;
    const bool stays = consumer < 0;
    contribution = stays ? handed_on(contribution) : contribution.dense();  // see run_nodes
    add_part(stays ? sums[value] : state.contributions[{value, consumer}], std::move(contribution));
  }
}

/// Micro-batch gradients are added in the order of the backwards, which is ascending: into the sum of those before, where there is one.
void Stage::offer_accumulators(int node, const std::vector<NodePtr>& leaves) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]) continue;
    const auto& gradients = parameters_[node_parameters_[node][i]].gradients;
    if (const auto sum = gradients.find(node); sum != gradients.end()) leaves[i]->accumulator = sum->second;
  }
}

/// Frozen parameters have no leaf.
/// Keeps the first gradient as the sum; a later one is in the sum already. It is copied where something else still reads it: later ones
/// are added to it, and optimizers may write into it.
void Stage::accumulate(int node, Backward& backward, const std::vector<NodePtr>& leaves) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]) continue;
    Tensor gradient = backward.take(leaves[i]);
    Tensor& sum = parameters_[node_parameters_[node][i]].gradients[node];
    watch("a gradient of the parameters", gradient.defined() ? gradient : sum);
    if (!gradient.defined() || sum.defined()) continue;
    const bool keep = gradient.is_contiguous() && gradient.is_exclusive();
    sum = keep ? std::move(gradient) : gradient.clone();
  }
}

}  // namespace sluice::parallel
