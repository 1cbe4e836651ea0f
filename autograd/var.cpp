#include "autograd/var.h"

#include <atomic>

namespace sluice {

namespace {

uint64_t next_order() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

Var leaf(const char* kind, Tensor value, bool is_input) {
  auto node = std::make_shared<Node>();
  node->op = kind;
  node->dtype = value.dtype();
  node->reaches_input = is_input;
  node->reaches_parameter = !is_input;
  node->order = next_order();
  return {std::move(value), std::move(node)};
}

}  // namespace

Var Var::input(Tensor value) { return leaf("input", std::move(value), true); }
Var Var::parameter(Tensor value) { return leaf("parameter", std::move(value), false); }

Var record(const char* op, Tensor y, const std::vector<Var>& inputs, std::vector<Tensor> saved, std::any attributes,
           BackwardFunction backward) {
  bool reaches_input = false, reaches_parameter = false;
  for (const auto& input : inputs)
    if (input.node()) {
      reaches_input |= input.node()->reaches_input;
      reaches_parameter |= input.node()->reaches_parameter;
    }
  if (!reaches_input && !reaches_parameter) return Var(std::move(y));
  auto node = std::make_shared<Node>();
  node->op = op;
  node->dtype = y.dtype();
  for (const auto& input : inputs) node->inputs.push_back(input.node());
  node->saved = std::move(saved);
  node->attributes = std::move(attributes);
  node->backward = backward;
  node->reaches_input = reaches_input;
  node->reaches_parameter = reaches_parameter;
  node->order = next_order();
  return {std::move(y), std::move(node)};
}

}  // namespace sluice
