#pragma once
#include "autograd/var.h"
#include "core/ops/matmul.h"

namespace sluice {

/// The gradient op(a) op(b) of a node's input, of that input's shape and gradient_dtype(). Where products add to sums as they are made
/// (matmul_onto()) it is the input's accumulator, so that more micro-batches make no pass over the gradients of weights.
/// For backward functions of ops that defer (see record()).
inline Tensor product_gradient(const Node& node, size_t input, const Shape& shape, const Tensor& a, const Tensor& b, bool transpose_a,
                               bool transpose_b) {
  return matmul_onto(node.accumulator_of(input), shape, node.inputs[input]->gradient_dtype(), a, b, transpose_a, transpose_b);
}

}  // namespace sluice
