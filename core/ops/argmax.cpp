#include "core/ops/argmax.h"

#include <algorithm>
#include <numeric>

#include "core/dispatch.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

/// x [..., N, ...] with that axis as the last one, and the others in their order.
Tensor with_axis_last(const Tensor& x, int axis) {
  std::vector<int> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis, order.begin() + axis + 1, order.end());
  return x.permute(order).contiguous();
}

Tensor largest(const char* op, const Tensor& x, int axis) {
  require(x.rank() >= 1 && x.dim(normal_axis(op, axis, x.rank())) > 0, op, ": needs a non-empty axis, got ", x, " and axis ", axis);
  const Tensor rows = with_axis_last(x, normal_axis(op, axis, x.rank())), y = empty(rows.shape().without(-1), DType::i64, x.device_ptr());
  const Cost cost{static_cast<double>(x.elements()), static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel("argmax", {rows}, cost, [&](auto& context) { kernels::argmax(context, rows, y); });
  return y;
}

}  // namespace

Tensor argmax(const Tensor& x, int axis) { return largest("argmax", x, axis); }

Tensor argmin(const Tensor& x, int axis) { return largest("argmin", neg(x), axis); }

}  // namespace sluice
