#include "autograd/ops/linear.h"

#include "core/ops/matmul.h"

namespace sluice {

namespace {

Tensor as_matrix(const Tensor& x) { return x.contiguous().reshape({x.shape().elements_before(-1), x.dim(-1)}); }

/// dx = dy W,  dW = dy^T x,  dbias = sum of dy's rows.
Gradients linear_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const Tensor rows = as_matrix(dy);
  Gradients gradients(3);
  if (needs[0]) gradients[0] = matmul(rows, weight).reshape(x.shape());
  // Not into the accumulator: a product that adds to sums outside the cache is slower than a product and a pass (docs/performance.md).
  if (needs[1]) gradients[1] = matmul(rows, as_matrix(x), true, false);
  if (needs[2]) gradients[2] = sum_rows(rows);
  return gradients;
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  return record("linear", linear(x.value(), weight.value(), bias.value()), {x, weight, bias}, {x.value(), weight.value()}, {},
                linear_gradients);
}

}  // namespace sluice
