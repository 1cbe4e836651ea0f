#pragma once
#include "core/tensor.h"

namespace sluice {

/// Two 1x1 convolutions side by side, of an image's pixels at even places and of those at odd ones, with zeros past the edge:
/// y[b, i, j] = (even x[b, 2i, 2j], odd x[b, 2i + 1, 2j + 1]).
/// Shape   x [B, H, W, C], even and odd [O, 1, 1, C] -> y [B, ceil(H / 2), ceil(W / 2), 2 O].
/// Dtypes  f32, f64, bf16 (sums in f32); all alike.
/// Errors  UsageError naming the shapes.
/// Cost    4 O C FLOPs a pixel of y; one copy of those pixels of x.
/// Source  Zoph, Vasudevan, Shlens, Le 2017, arXiv:1707.07012, appendix.
Tensor factorized_reduction(const Tensor& x, const Tensor& even, const Tensor& odd);

/// The gradients for dy of y's shape, each computed without the others; that of x with `sum` added, where it is defined (gradient_sum.h). The
/// weight's is in the type of arithmetic (f32 for bf16).
Tensor factorized_reduction_input_gradient(const Tensor& dy, const Tensor& even, const Tensor& odd, const Shape& x_shape,
                                           const Tensor& sum = {});
/// Of `even`, or of `odd`; where `sum` is a tensor of its shape it may be that sum with the gradient added (matmul_onto()).
Tensor factorized_reduction_weight_gradient(const Tensor& dy, const Tensor& x, bool is_odd, const Tensor& sum = {});

}  // namespace sluice
