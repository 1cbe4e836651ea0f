#include "autograd/ops/sort.h"

#include "core/ops/gather.h"

namespace sluice {

namespace {

struct SortAttributes {
  int axis;
  int64_t n;
};

SortedVar record_sorted(const char* op, const Var& x, const Sorted& sorted, int axis) {
  Var values =
      record(op, sorted.values, {x}, {sorted.indices}, SortAttributes{axis, x.dim(axis)}, [](const Node& node, const Tensor& dy, Needs) {
        const auto& at = node.attribute<SortAttributes>();
        return Gradients{gather_backward(dy, at.axis, node.saved[0], at.n)};
      });
  return {std::move(values), sorted.indices};
}

}  // namespace

SortedVar sort(const Var& x, int axis, bool descending) { return record_sorted("sort", x, sort(x.value(), axis, descending), axis); }

SortedVar topk(const Var& x, int64_t k, int axis, bool largest) {
  return record_sorted("topk", x, topk(x.value(), k, axis, largest), axis);
}

}  // namespace sluice
