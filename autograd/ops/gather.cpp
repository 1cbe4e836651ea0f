#include "autograd/ops/gather.h"

namespace sluice {

namespace {

struct GatherAttributes {
  int axis;
  int64_t n;
};

using Take = Tensor (*)(const Tensor& x, int axis, const Tensor& index);
using Put = Tensor (*)(const Tensor& dy, int axis, const Tensor& index, int64_t n);

// None of these defers: most indices come with data, and an op on parameters that has rows to look up is `embedding`.
template <Put backward>
Var record_take(const char* op, Tensor y, const Var& x, int axis, const Tensor& index) {
  return record(op, std::move(y), {x, index}, {index}, GatherAttributes{axis, x.dim(axis)}, [](const Node& node, const Tensor& dy, Needs) {
    const auto& at = node.attribute<GatherAttributes>();
    return Gradients{backward(dy, at.axis, node.saved[0], at.n)};
  });
}

template <Take take>
Var record_put(const char* op, Tensor y, const Var& x, int axis, const Tensor& index, const Var& source) {
  return record(op, std::move(y), {x, source, index}, {index}, axis, [](const Node& node, const Tensor& dy, Needs needs) {
    return Gradients{needs[0] ? dy : Tensor(), needs[1] ? take(dy, node.attribute<int>(), node.saved[0]) : Tensor()};
  });
}

}  // namespace

Var gather(const Var& x, int axis, const Tensor& index) {
  return record_take<gather_backward>("gather", gather(x.value(), axis, index), x, axis, index);
}

Var index_select(const Var& x, int axis, const Tensor& index) {
  return record_take<index_select_backward>("index_select", index_select(x.value(), axis, index), x, axis, index);
}

Var scatter_add(const Var& x, int axis, const Tensor& index, const Var& source) {
  return record_put<gather>("scatter_add", scatter_add(x.value(), axis, index, source.value()), x, axis, index, source);
}

Var index_add(const Var& x, int axis, const Tensor& index, const Var& source) {
  return record_put<index_select>("index_add", index_add(x.value(), axis, index, source.value()), x, axis, index, source);
}

}  // namespace sluice
