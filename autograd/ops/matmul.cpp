#include "autograd/ops/matmul.h"

#include "autograd/ops/product_gradient.h"
#include "autograd/ops/reshape.h"
#include "autograd/ops/views.h"

namespace sluice {

namespace {

struct MatmulAttributes {
  Shape a, b;
  bool transpose_a, transpose_b;
};

/// With c = op(a) op(b):  d op(a) = dc op(b)^T and d op(b) = op(a)^T dc; where op transposes, the factors change places.
/// Deferred: a weight's gradient keeps dc and the other factor.
Gradients matmul_gradients(const Node& node, const Tensor& dc, Needs needs) {
  const Tensor &a = node.saved[0], &b = node.saved[1];
  const auto& [a_shape, b_shape, transpose_a, transpose_b] = node.attribute<MatmulAttributes>();
  Gradients gradients(2);
  if (needs[0])
    gradients[0] = transpose_a ? product_gradient(node, 0, a_shape, b, dc, transpose_b, true)
                               : product_gradient(node, 0, a_shape, dc, b, false, !transpose_b);
  if (needs[1])
    gradients[1] = transpose_b ? product_gradient(node, 1, b_shape, dc, a, true, transpose_a)
                               : product_gradient(node, 1, b_shape, a, dc, !transpose_a, false);
  return gradients;
}

}  // namespace

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  if (!are_matrices(a.shape(), b.shape())) {
    const MatmulShapes shapes = matmul_shapes(a.shape(), b.shape(), transpose_a, transpose_b);
    const auto expanded = [](const Var& x, const Shape& shape) { return x.shape() == shape ? x : expand(x, shape); };
    const Var columns = b.rank() == 1 ? unsqueeze(b, 1) : b;
    return reshape(matmul(expanded(a, shapes.a), expanded(columns, shapes.b), transpose_a, transpose_b), shapes.result);
  }
  return record("matmul", matmul(a.value(), b.value(), transpose_a, transpose_b), {a, b}, {a.value(), b.value()},
                MatmulAttributes{a.shape(), b.shape(), transpose_a, transpose_b}, matmul_gradients, {Needs::of(1), Needs::of(0)});
}

}  // namespace sluice
