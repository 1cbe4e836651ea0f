#include "autograd/ops/matmul.h"

namespace sluice {

namespace {

/// op(left) op(right) in the shape of `like`.
Tensor product_like(const Tensor& like, const Tensor& left, const Tensor& right, bool transpose_left, bool transpose_right) {
  Tensor result = empty_like(like);
  matmul_into(left, right, result, transpose_left, transpose_right, 0);
  return result;
}

/// With c = op(a) op(b):  d op(a) = dc op(b)^T and d op(b) = op(a)^T dc; where op transposes, the factors change places.
Gradients matmul_gradients(const Node& node, const Tensor& dc, Needs needs) {
  const Tensor &a = node.saved[0], &b = node.saved[1];
  const auto [transpose_a, transpose_b] = node.attribute<std::pair<bool, bool>>();
  Gradients gradients(2);
  if (needs[0]) gradients[0] = transpose_a ? product_like(a, b, dc, transpose_b, true) : product_like(a, dc, b, false, !transpose_b);
  if (needs[1]) gradients[1] = transpose_b ? product_like(b, dc, a, true, transpose_a) : product_like(b, a, dc, !transpose_a, false);
  return gradients;
}

}  // namespace

Var matmul(const Var& a, const Var& b, bool transpose_a, bool transpose_b) {
  return record("matmul", matmul(a.value(), b.value(), transpose_a, transpose_b), {a, b}, {a.value(), b.value()},
                std::pair(transpose_a, transpose_b), matmul_gradients);
}

}  // namespace sluice
