#include "core/ops/softmax.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

/// About five operations an element: maximum, difference, exponential, sum, scale.
constexpr double kFlops = 5;

void require_elements(const char* op, const Tensor& x, int axis) {
  require(x.rank() >= 1 && x.dim(normal_axis(op, axis, x.rank())) > 0, op, ": needs a non-empty axis, got ", x, " and axis ", axis);
}

template <class Kernel>
Tensor over_rows(const char* op, const Tensor& x, int axis, const Kernel& kernel) {
  require_elements(op, x, axis);
  if (normal_axis(op, axis, x.rank()) != x.rank() - 1)
    return over_rows(op, x.transpose(axis, -1), -1, kernel).transpose(axis, -1).contiguous();
  const Tensor rows = x.contiguous(), y = empty_like(x);
  const auto bytes = static_cast<double>(x.bytes());
  run_kernel(op, {rows}, {kFlops * static_cast<double>(x.elements()), bytes, bytes}, [&](auto& context) { kernel(context, rows, y); });
  return y;
}

template <class Kernel>
Tensor over_rows_backward(const char* op, const Tensor& y, const Tensor& dy, const Kernel& kernel) {
  require(y.shape() == dy.shape() && y.dtype() == dy.dtype(), op, ": needs y and dy of one shape and dtype, got ", y, " and ", dy);
  require_elements(op, y, -1);
  const Tensor kept = y.contiguous(), rows = dy.contiguous(), dx = empty_like(y);
  const auto bytes = static_cast<double>(y.bytes());
  run_kernel(op, {kept, rows}, {kFlops * static_cast<double>(y.elements()), 2 * bytes, bytes},
             [&](auto& context) { kernel(context, kept, rows, dx); });
  return dx;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return over_rows("softmax", x, axis, [](auto& context, const auto&... tensors) { kernels::softmax(context, tensors...); });
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy) {
  return over_rows_backward("softmax_backward", y, dy,
                            [](auto& context, const auto&... tensors) { kernels::softmax_backward(context, tensors...); });
}

Tensor log_softmax(const Tensor& x, int axis) {
  return over_rows("log_softmax", x, axis, [](auto& context, const auto&... tensors) { kernels::log_softmax(context, tensors...); });
}

Tensor log_softmax_backward(const Tensor& y, const Tensor& dy) {
  return over_rows_backward("log_softmax_backward", y, dy,
                            [](auto& context, const auto&... tensors) { kernels::log_softmax_backward(context, tensors...); });
}

Tensor logsumexp(const Tensor& x, int axis, bool keep) {
  require_elements("logsumexp", x, axis);
  const Tensor rows = x.transpose(axis, -1).contiguous(), y = empty(rows.shape().with(x.rank() - 1, 1), x.dtype(), x.device_ptr());
  const Cost cost{kFlops * static_cast<double>(x.elements()), static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel("logsumexp", {rows}, cost, [&](auto& context) { kernels::logsumexp(context, rows, y); });
  const Tensor kept = y.transpose(axis, -1).contiguous();
  return keep ? kept : kept.reshape(x.shape().without(normal_axis("logsumexp", axis, x.rank())));
}

Tensor logsumexp_backward(const Tensor& x, const Tensor& dy) {
  const Shape kept = x.shape().with(x.rank() - 1, 1);
  require(dy.shape() == kept && dy.dtype() == x.dtype(), "logsumexp_backward: needs dy of x's dtype and shape ", kept, ", got ", dy,
          " for ", x);
  const Tensor rows = x.contiguous(), gradient = dy.contiguous(), dx = empty_like(x);
  const Cost cost{kFlops * static_cast<double>(x.elements()), static_cast<double>(x.bytes() + dy.bytes()), static_cast<double>(dx.bytes())};
  run_kernel("logsumexp_backward", {rows, gradient}, cost,
             [&](auto& context) { kernels::logsumexp_backward(context, rows, gradient, dx); });
  return dx;
}

}  // namespace sluice
