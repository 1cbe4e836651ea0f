#pragma once
#include "autograd/var.h"
#include "core/ops/matmul.h"

namespace sluice {

/// The gradient op(a) op(b) of a node's input, of that input's shape and gradient_dtype(). On GPUs the product adds to the input's accumulator
/// and returns it, so that more micro-batches make no pass over the gradients of weights: it is the sum, rounded once, that a pass would
/// make of the product's sums in f32. On CPUs a product that adds to sums outside the cache is slower than a product and a pass
/// (docs/performance.md, "What was tried").
/// For backward functions of ops that defer (see record()).
inline Tensor product_gradient(const Node& node, size_t input, const Shape& shape, const Tensor& a, const Tensor& b, bool transpose_a,
                               bool transpose_b) {
  const Tensor sum = a.device().backend() == DeviceKind::cuda ? node.accumulator_of(input) : Tensor();
  const Tensor gradient = sum.defined() ? sum : empty(shape, node.inputs[input]->gradient_dtype(), a.device_ptr());
  matmul_into(a, b, gradient, transpose_a, transpose_b, sum.defined() ? 1 : 0);
  return gradient;
}

}  // namespace sluice
