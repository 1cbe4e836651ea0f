#include "autograd/ops/linear.h"

#include "core/ops/matmul.h"
#include "core/ops/padded_rows.h"

namespace sluice {

namespace {

/// dx = dy W,  dW = dy^T x,  dbias = sum of dy's rows.
Gradients linear_gradients(const Node& node, const Tensor& dy, Needs needs) {
  const Tensor &x = node.saved[0], &weight = node.saved[1];
  const Tensor rows = as_padded_matrix(dy);
  Gradients gradients(3);
  if (needs[0]) gradients[0] = matmul(rows, weight).reshape(x.shape());
  // Not into the accumulator: a product that adds to sums outside the cache is slower than a product and a pass (docs/performance.md).
  if (needs[1]) {
    gradients[1] = empty(weight.shape(), node.inputs[1]->gradient_dtype(), weight.device_ptr());
    matmul_into(rows, as_matrix(x.contiguous()), gradients[1], true, false, 0);
  }
  if (needs[2]) gradients[2] = sum_rows(rows);
  return gradients;
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias) {
  return record("linear", linear(x.value(), weight.value(), bias.value()), {x, weight, bias}, {x.value(), weight.value()}, {},
                linear_gradients);
}

}  // namespace sluice
