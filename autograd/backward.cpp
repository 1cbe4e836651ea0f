#include "autograd/backward.h"

#include <algorithm>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

/// A gradient of this value.
bool fits(const Tensor& gradient, const Node& value) {
  return gradient.defined() && gradient.shape() == value.shape && &gradient.device() == value.device.get();
}

}  // namespace

Backward::Backward(const Var& y, Tensor dy, Saved saved) : Backward(y.node(), std::move(dy), saved) {}

Backward::Backward(const NodePtr& root, Tensor dy, Saved saved) : root_(root ? root->op : ""), saved_(saved) {
  require(root != nullptr, "backward: needs a value that depends on an input or parameter leaf, got a constant");
  require(fits(dy, *root), "backward: needs a gradient of the value's shape ", root->shape, " on ", *root->device, ", got ", dy);
  pending_[root->order] = {root, cast(dy, root->gradient_dtype()), {}};
}

void Backward::require_new() const {
  require(!pending_.empty(), "backward of '", root_, "': runs once; make another Backward, and give the first Saved::kept");
}

void Backward::begin_sum(const NodePtr& leaf, Tensor sum) {
  require_new();
  require(leaf && !leaf->backward && leaf->uses == 1 && !leaf->accumulator.defined(), "backward of '", root_,
          "': begin_sum needs a leaf with one use and without an accumulator, got '", leaf ? leaf->op : "constant", "' with ",
          leaf ? leaf->uses : 0, " uses; add the sum to what take() gives");
  require(fits(sum, *leaf), "backward of '", root_, "': begin_sum needs a sum of the leaf's shape ", leaf->shape, " on ", *leaf->device,
          ", got ", sum);
  require(leaves_.try_emplace(leaf.get(), cast(sum, leaf->gradient_dtype())).second, "backward of '", root_,
          "': begin_sum has a sum for this leaf already; add the two");
}

void Backward::run() {
  require_new();
  propagate(Pass::all);
}

void Backward::run_inputs() {
  require_new();
  propagate(Pass::inputs);
  inputs_done_ = true;
}

void Backward::run_weights() {
  require(inputs_done_, "backward: run_weights needs run_inputs before it");
  inputs_done_ = false;
  pending_ = std::move(deferred_);
  deferred_.clear();
  propagate(Pass::weights);
}

void Backward::propagate(Pass pass) {
  while (!pending_.empty()) {
    done_ = pending_.extract(pending_.begin());
    visit(std::exchange(done_.mapped(), {}), pass);
  }
  accumulate(small_);
  small_.clear();
}

namespace {

/// The inputs whose gradients a call of the backward function has to make. What is made of parameters alone waits when the op defers.
Needs needed(const Node& node, bool weights_wait) {
  Needs needs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] && !(weights_wait && node.defers() && !node.inputs[i]->reaches_data)) needs.add(i);
  return needs;
}

/// Backward functions may come from outside the library: what they made of what they were asked for is checked here.
void require_fitting(const Node& node, const Needs& needs, const Gradients& made) {
  for (size_t i = node.inputs.size(); i < made.size(); ++i)
    require(!made[i].defined(), "backward of '", node.op, "': needs a gradient for each of its ", node.inputs.size(),
            " inputs, its backward function returned ", made.size(), "; record() it with all inputs that have one");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!needs[i]) continue;
    const Node& input = *node.inputs[i];
    const Tensor gradient = i < made.size() ? made[i] : Tensor();
    if (fits(gradient, input) && is_floating(gradient.dtype())) continue;
    throw UsageError(join("backward of '", node.op, "': needs for input ", i, ", made by '", input.op, "', a floating gradient ",
                          input.shape, " on ", input.device->name(), ", its backward function returned ", gradient));
  }
}

}  // namespace

/// Takes an op's node for this backward: itself, or a copy of it, whose tensors are then not exclusive, so that nothing overwrites them.
void Backward::begin(Visit& visit) const {
  if (visit.has_begun) return;
  visit.has_begun = true;
  NodePtr& node = visit.node;
  require(!node->freed_by, "backward of '", root_, "': comes to '", node->op, "', whose saved tensors the backward of '", node->freed_by,
          "' freed; give that one Saved::kept, or add the two values and run one backward");
  if (saved_ == Saved::kept)
    node = std::make_shared<Node>(*node);
  else
    node->freed_by = root_;
}

void Backward::visit(Visit visit, Pass pass) {
  auto& [node, dy, made, has_begun] = visit;
  if (pass == Pass::inputs && !node->reaches_data) {
    defer(std::move(visit));
    return;
  }
  if (!node->backward) return add(node, std::move(dy));
  begin(visit);
  const Needs needs = needed(*node, pass == Pass::inputs);
  if (made.empty() && needs.any()) made = gradients_of(*node, dy, needs, pass);
  for (size_t i = 0; i < node->inputs.size(); ++i) {
    NodePtr& input = node->inputs[i];
    if (!needs[i] || (pass == Pass::inputs && !input->reaches_data)) continue;
    add(input, std::move(made[i]));
    input.reset();
  }
  if (std::ranges::any_of(node->inputs, [](const NodePtr& input) { return input != nullptr; }))
    defer(std::move(visit));
  else
    node->saved.clear();
}

/// Calls the node's backward function. Sums that it took are in what it returned; the others go back to where they were.
Gradients Backward::gradients_of(const Node& node, const Tensor& dy, const Needs& needs, Pass pass) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!needs[i] || (pass == Pass::inputs && !node.inputs[i]->reaches_data)) continue;
    Tensor* sum = sum_of(*node.inputs[i]);
    if (!sum) continue;
    node.sums.resize(node.inputs.size());
    node.sums[i] = std::exchange(*sum, Tensor());
  }
  Gradients made = node.backward(node, dy, needs);
  for (size_t i = 0; i < node.sums.size(); ++i)
    if (Tensor sum = std::exchange(node.sums[i], Tensor()); sum.defined()) add(node.inputs[i], std::move(sum));
  require_fitting(node, needs, made);
  return made;
}

/// Where the sum of a value's gradients is that a backward function may take; null where there is none.
Tensor* Backward::sum_of(const Node& value) {
  if (value.accumulator.defined() || value.gradient_dtype() != value.dtype) return nullptr;
  Tensor* sum = nullptr;
  if (!value.backward) {
    if (const auto leaf = leaves_.find(&value); leaf != leaves_.end()) sum = &leaf->second;
  } else if (const auto visit = pending_.find(value.order); visit != pending_.end()) {
    sum = &visit->second.dy;
  }
  return sum && sum->defined() ? sum : nullptr;
}

/// Keeps of a node what the gradients of its remaining inputs need: those that are made, or dy and what they read.
void Backward::defer(Visit visit) {
  Node& node = *visit.node;
  if (!node.reaches_data) {  // nothing of it was made
  } else if (!node.defers()) {
    visit.dy = Tensor();
    node.saved.clear();
    for (size_t i = 0; i < visit.made.size(); ++i)
      if (!node.inputs[i]) visit.made[i] = Tensor();
  } else {
    visit.made.clear();
    const Needs later = needed(node, false);
    for (size_t i = 0; i < node.saved.size(); ++i)
      if (!node.readers[i].meets(later)) node.saved[i] = Tensor();
  }
  deferred_[node.order] = std::move(visit);
}

/// Of a value, with the sum of its gradient so far.
Backward::Visit& Backward::pending(const NodePtr& node) {
  if (const auto found = pending_.find(node->order); found != pending_.end()) return found->second;
  if (!done_) return pending_.emplace(node->order, Visit{.node = node, .dy = {}, .made = {}}).first->second;
  done_.key() = node->order;
  done_.mapped().node = node;
  return pending_.insert(std::move(done_)).position->second;
}

void Backward::add(const NodePtr& node, Tensor gradient) {
  constexpr int64_t kFew = 4096;  // elements: what waits for the others costs little memory, and a kernel more than the addition
  gradient = cast(gradient, node->gradient_dtype());
  if (const Tensor& total = node->accumulator; total.defined()) {
    if (gradient.shares_storage(total)) {  // it was added to
    } else if (node->uses == 1 && total.elements() <= kFew && total.dtype() != DType::bf16) {
      small_.push_back({total, gradient.dense()});
    } else {
      add_into(total, gradient.contiguous());
    }
    leaves_[node.get()] = total;
  } else if (!node->backward) {
    add_part(leaves_[node.get()], std::move(gradient));
  } else {
    add_part(pending(node).dy, std::move(gradient));
  }
}

Tensor Backward::take(const NodePtr& leaf) {
  const auto found = leaves_.find(leaf.get());
  if (found == leaves_.end()) return {};
  Tensor gradient = std::move(found->second);
  leaves_.erase(found);
  return gradient;
}

std::vector<Tensor> gradients(const Var& y, const Tensor& dy, const std::vector<Var>& leaves, Backward::Saved saved) {
  for (size_t i = 0; i < leaves.size(); ++i)
    if (const NodePtr& node = leaves[i].node(); node && node->backward)
      throw UsageError(join("gradients: needs leaves, Var::input() or Var::parameter(), got the result of '", node->op, "' as number ", i,
                            "; make a leaf of its value, and compute on from that"));
  Backward backward(y, dy, saved);
  backward.run();
  std::map<const Node*, Tensor> found;  // a leaf may be asked for twice
  std::vector<Tensor> result;
  for (const auto& leaf : leaves) {
    const auto [place, is_new] = found.try_emplace(leaf.node().get());
    if (is_new) place->second = backward.take(leaf);
    result.push_back(place->second);
  }
  return result;
}

std::vector<Tensor> gradients(const Var& loss, const std::vector<Var>& leaves, Backward::Saved saved) {
  require(loss.value().defined() && loss.elements() == 1, "gradients: needs a loss of one number, got ", loss,
          "; sum it up, or say the gradient dy that it has");
  return gradients(loss, full_like(loss.value(), 1), leaves, saved);
}

}  // namespace sluice
