#include "autograd/var.h"

#include <algorithm>
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
  node->reaches_data = is_input;
  node->order = next_order();
  return {std::move(value), std::move(node)};
}

}  // namespace

Var Var::input(Tensor value) { return leaf("input", std::move(value), true); }
Var Var::parameter(Tensor value) { return leaf("parameter", std::move(value), false); }

Var record(const char* op, Tensor y, const std::vector<Var>& inputs, std::vector<Tensor> saved, std::any attributes,
           BackwardFunction backward, std::vector<Needs> readers) {
  if (std::ranges::none_of(inputs, [](const Var& input) { return input.node() != nullptr; })) return Var(std::move(y));
  require(readers.empty() || readers.size() == saved.size(), op, ": needs the readers of each of ", saved.size(), " saved tensors, got ",
          readers.size());
  auto node = std::make_shared<Node>();
  node->op = op;
  node->dtype = y.dtype();
  node->inputs.reserve(inputs.size());
  for (const auto& input : inputs) {
    node->inputs.push_back(input.node());
    const bool is_constant = input.value().defined() && !input.node();
    node->reaches_data |= is_constant || (input.node() && input.node()->reaches_data);
  }
  node->saved = std::move(saved);
  node->readers = std::move(readers);
  node->attributes = std::move(attributes);
  node->backward = backward;
  node->order = next_order();
  return {std::move(y), std::move(node)};
}

}  // namespace sluice
