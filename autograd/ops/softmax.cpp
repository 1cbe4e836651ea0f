#include "autograd/ops/softmax.h"

#include "autograd/ops/reshape.h"
#include "core/ops/softmax.h"

namespace sluice {

namespace {

/// The op over the last axis, on x turned so that this is the axis asked for.
template <class Op>
Var over_axis(const char* name, const Var& x, int axis, const Op& op) {
  if (x.rank() == 0 || normal_axis(name, axis, x.rank()) == x.rank() - 1) return op(x);
  require(x.dim(axis) > 0, name, ": needs a non-empty axis, got ", x, " and axis ", axis);  // op would tell of the turned one
  return transpose(op(transpose(x, axis, -1)), axis, -1);
}

}  // namespace

Var softmax(const Var& x, int axis) {
  return over_axis("softmax", x, axis, [](const Var& rows) {
    Tensor y = softmax(rows.value());
    return record("softmax", y, {rows}, {y}, {},
                  [](const Node& node, const Tensor& dy, Needs) { return Gradients{softmax_backward(node.saved[0], dy)}; });
  });
}

Var log_softmax(const Var& x, int axis) {
  return over_axis("log_softmax", x, axis, [](const Var& rows) {
    Tensor y = log_softmax(rows.value());
    return record("log_softmax", y, {rows}, {y}, {},
                  [](const Node& node, const Tensor& dy, Needs) { return Gradients{log_softmax_backward(node.saved[0], dy)}; });
  });
}

Var logsumexp(const Var& x, int axis, bool keep) {
  const Var y = over_axis("logsumexp", x, axis, [](const Var& rows) {
    return record("logsumexp", logsumexp(rows.value(), -1, true), {rows}, {rows.value()}, {},
                  [](const Node& node, const Tensor& dy, Needs) { return Gradients{logsumexp_backward(node.saved[0], dy)}; });
  });
  return keep ? y : reshape(y, x.shape().without(normal_axis("logsumexp", axis, x.rank())));
}

}  // namespace sluice
