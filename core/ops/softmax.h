#pragma once
#include "core/tensor.h"

namespace sluice {

/// Softmax over an axis:  y[i,j] = exp(x[i,j] - max_j x[i,:]) / sum_j exp(x[i,j] - max_j x[i,:]).
/// Shape   x [..., N, ...], N >= 1  ->  y, same shape and dtype, row-major.
/// Dtypes  f32, bf16, f64.
/// Errors  UsageError when x is a scalar or N == 0.
/// Cost    two copies more for another axis than the last.
Tensor softmax(const Tensor& x, int axis = -1);
/// dx = y * (dy - sum_j dy*y), over the last axis.
Tensor softmax_backward(const Tensor& y, const Tensor& dy);

/// Logarithm of softmax, without leaving the logarithms:  y[i,j] = x[i,j] - max - log(sum_j exp(x[i,j] - max)).
/// Shape, Dtypes, Errors, Cost  as softmax.
Tensor log_softmax(const Tensor& x, int axis = -1);
/// dx = dy - exp(y) * sum_j dy, over the last axis.
Tensor log_softmax_backward(const Tensor& y, const Tensor& dy);

/// y[i] = log(sum_j exp(x[i,j])) over an axis, by max_j x[i,:] + log(sum_j exp(x[i,j] - max)), which overflows nowhere. -inf where all
/// elements are, inf where one is.
/// Shape   x [..., N, ...], N >= 1  ->  y without the axis, or with extent 1 there when `keep` is set; row-major.
/// Dtypes, Errors  as softmax.
/// Cost    one pass over x; a copy more for another axis than the last.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keep = false);
/// dx[i,j] = dy[i] * softmax(x)[i,j] over the last axis (kept in dy), 0 in rows of -inf alone.
Tensor logsumexp_backward(const Tensor& x, const Tensor& dy);

namespace kernels {
void softmax(Cpu& cpu, const Tensor& x, const Tensor& y);
void softmax(Cuda& cuda, const Tensor& x, const Tensor& y);
void softmax_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void softmax_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);
void log_softmax(Cpu& cpu, const Tensor& x, const Tensor& y);
void log_softmax(Cuda& cuda, const Tensor& x, const Tensor& y);
void log_softmax_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void log_softmax_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);
void logsumexp(Cpu& cpu, const Tensor& x, const Tensor& y);
void logsumexp(Cuda& cuda, const Tensor& x, const Tensor& y);
void logsumexp_backward(Cpu& cpu, const Tensor& x, const Tensor& dy, const Tensor& dx);
void logsumexp_backward(Cuda& cuda, const Tensor& x, const Tensor& dy, const Tensor& dx);
}  // namespace kernels

}  // namespace sluice
