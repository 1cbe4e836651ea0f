#include "autograd/backward.h"

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace sluice {

Backward::Backward(const Var& y, Tensor dy) : Backward(y.node(), dy) {
  require(y.shape() == dy.shape(), "backward: needs a gradient of the value's shape ", y.shape(), ", got ", dy.shape());
}

Backward::Backward(const NodePtr& root, Tensor dy) {
  require(root != nullptr, "backward: needs a value that depends on an input or parameter leaf, got a constant");
  add(root, std::move(dy));
}

void Backward::run() { propagate(Pass::all); }

void Backward::run_inputs() {
  propagate(Pass::inputs);
  inputs_done_ = true;
}

void Backward::run_weights() {
  require(inputs_done_, "backward: run_weights needs run_inputs before it");
  pending_ = std::move(deferred_);
  deferred_.clear();
  propagate(Pass::weights);
}

void Backward::propagate(Pass pass) {
  while (!pending_.empty()) {
    auto entry = pending_.extract(pending_.begin());
    visit(entry.mapped().first, entry.mapped().second, pass);
  }
}

void Backward::visit(const NodePtr& node, const Tensor& dy, Pass pass) {
  if (!node->backward) {
    leaves_[node.get()] = dy;
    return;
  }
  Needs now, later;
  for (size_t i = 0; i < node->inputs.size(); ++i) {
    const auto& input = node->inputs[i];
    if (!input || !(input->reaches_input || input->reaches_parameter)) continue;
    const bool in_this_pass = pass == Pass::all || input->reaches_input == (pass == Pass::inputs);
    (in_this_pass ? now : later).bits |= 1u << i;
  }
  if (now.bits) {
    Gradients gradients = node->backward(*node, dy, now);
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if (now[i]) add(node->inputs[i], std::move(gradients[i]));
  }
  if (pass == Pass::inputs && later.bits)
    deferred_[node->order] = {node, dy};
  else
    node->saved.clear();
}

void Backward::add(const NodePtr& node, Tensor gradient) {
  gradient = cast(gradient, node->gradient_dtype());
  if (const Tensor& total = node->accumulator; total.defined()) {
    if (!gradient.shares_storage(total)) add_into(total, gradient.contiguous());
    leaves_[node.get()] = total;
    return;
  }
  auto& [owner, sum] = pending_[node->order];
  add_part(sum, std::move(gradient));
  owner = node;
}

Tensor Backward::take(const NodePtr& leaf) {
  const auto found = leaves_.find(leaf.get());
  if (found == leaves_.end()) return {};
  Tensor gradient = std::move(found->second);
  leaves_.erase(found);
  return gradient;
}

std::vector<Tensor> gradients(const Var& y, const Tensor& dy, const std::vector<Var>& leaves) {
  Backward backward(y, dy);
  backward.run();
  std::vector<Tensor> result;
  for (const auto& leaf : leaves) result.push_back(backward.take(leaf));
  return result;
}

}  // namespace sluice
