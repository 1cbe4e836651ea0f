#include "autograd/var.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

namespace sluice {

Needs Needs::of(size_t input) {
  Needs needs;
  needs.add(input);
  return needs;
}

void Needs::add(size_t input) {
  if (input < kFirst) {
    first_ |= uint64_t{1} << input;
    return;
  }
  if (input - kFirst >= others_.size()) others_.resize(input - kFirst + 1);
  others_[input - kFirst] = true;
}

bool Needs::meets(const Needs& other) const {
  if ((first_ & other.first_) != 0) return true;
  for (size_t i = 0; i < std::min(others_.size(), other.others_.size()); ++i)
    if (others_[i] && other.others_[i]) return true;
  return false;
}

Node::~Node() {
  std::vector<NodePtr> upstream = std::move(inputs);
  while (!upstream.empty()) {
    const NodePtr node = std::move(upstream.back());
    upstream.pop_back();
    if (node.use_count() != 1) continue;  // null, or held elsewhere
    std::ranges::move(node->inputs, std::back_inserter(upstream));
    node->inputs.clear();
  }
}

namespace {

uint64_t next_order() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

void describe(Node& node, const Tensor& value) {
  node.dtype = value.dtype();
  node.shape = value.shape();
  node.device = value.device_ptr();
}

Var leaf(const char* kind, Tensor value, bool is_input) {
  require(!value.defined() || is_floating(value.dtype()), "Var::", kind, ": needs floating elements to have a gradient, got ", value,
          "; use Var(tensor) for a constant, or cast() it first");
  auto node = std::make_shared<Node>();
  node->op = kind;
  describe(*node, value);
  node->reaches_data = is_input;
  node->order = next_order();
  return {std::move(value), std::move(node)};
}

/// Nodes made before are constants of this thread: see NoGrad.
thread_local uint64_t recorded_from = 0;

bool records(const Var& input) { return input.node() && input.node()->order >= recorded_from; }

}  // namespace

NoGrad::NoGrad() : outer_(std::exchange(recorded_from, next_order())) {}
NoGrad::~NoGrad() { recorded_from = outer_; }

Var Var::input(Tensor value) { return leaf("input", std::move(value), true); }
Var Var::parameter(Tensor value) { return leaf("parameter", std::move(value), false); }

Var record(const char* op, Tensor y, const std::vector<Var>& inputs, std::vector<Tensor> saved, OpAttributes attributes,
           BackwardFunction backward, std::vector<Needs> readers) {
  require(backward != nullptr, op,
          ": needs a backward function, got a null pointer; a value without a gradient is a Var of the tensor alone");
  if (std::ranges::none_of(inputs, records) || !is_floating(y.dtype())) return Var(std::move(y));
  require(readers.empty() || readers.size() == saved.size(), op, ": needs the readers of each of ", saved.size(), " saved tensors, got ",
          readers.size());
  auto node = std::make_shared<Node>();
  node->op = op;
  describe(*node, y);
  node->inputs.reserve(inputs.size());
  for (const auto& input : inputs) {
    const NodePtr& from = node->inputs.emplace_back(records(input) ? input.node() : nullptr);
    if (from) ++from->uses;
    const bool is_constant = input.value().defined() && !from;
    node->reaches_data |= is_constant || (from && from->reaches_data);
  }
  node->saved = std::move(saved);
  node->readers = std::move(readers);
  node->attributes = std::move(attributes);
  node->backward = backward;
  node->order = next_order();
  return {std::move(y), std::move(node)};
}

Var record_moved(const char* op, Tensor y, const std::vector<Var>& inputs, OpAttributes attributes, BackwardFunction backward) {
  Var moved = record(op, std::move(y), inputs, {}, std::move(attributes), backward);
  if (moved.node()) moved.node()->only_moves = true;
  return moved;
}

void describe(std::ostream& out, const Var& x) { describe(out, x.value()); }

std::ostream& operator<<(std::ostream& out, const Var& x) { return out << x.value(); }

}  // namespace sluice
