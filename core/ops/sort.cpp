#include "core/ops/sort.h"

#include <bit>

#include "core/dispatch.h"

namespace sluice {

namespace {

/// Scratch for the keys of rows of n elements, of which the first k are wanted.
Tensor keys_for(const Tensor& rows, int64_t k) {
  const int64_t n = rows.dim(-1), words = size_of(rows.dtype()) > 4 ? 2 : 1;
  int64_t width = n;
  if (rows.device().backend() == DeviceKind::cuda)
    width = kernels::selects_first(rows.dtype(), n, k) ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  return empty({rows.shape().elements_before(-1), width, words}, DType::i64, rows.device_ptr());
}

double comparisons(const Tensor& rows) {
  return static_cast<double>(rows.elements()) * std::bit_width(static_cast<uint64_t>(rows.dim(-1)));
}

Sorted sort_first(const char* op, const Tensor& x, int64_t k, int axis, bool descending) {
  const int along = normal_axis(op, axis, x.rank());
  require(0 <= k && k <= x.dim(along), op, ": needs a k from 0 to ", x.dim(along), ", the extent of axis ", along, ", got ", k);
  require(x.dim(along) < int64_t{1} << 31, op, ": needs an axis of fewer than 2^31 elements, got ", x);
  const Tensor rows = x.transpose(along, -1).contiguous();
  const Tensor values = empty(rows.shape().with(-1, k), x.dtype(), x.device_ptr());
  const Tensor indices = empty(values.shape(), DType::i64, x.device_ptr()), keys = keys_for(rows, k);
  const Cost cost{comparisons(rows), static_cast<double>(x.bytes()), static_cast<double>(values.bytes() + indices.bytes())};
  run_kernel(op, {rows}, cost, [&](auto& context) { kernels::sort(context, rows, descending, keys, values, indices); });
  return {values.transpose(along, -1), indices.transpose(along, -1)};
}

}  // namespace

Sorted sort(const Tensor& x, int axis, bool descending) {
  return sort_first("sort", x, x.dim(normal_axis("sort", axis, x.rank())), axis, descending);
}

Tensor argsort(const Tensor& x, int axis, bool descending) { return sort(x, axis, descending).indices; }

Sorted topk(const Tensor& x, int64_t k, int axis, bool largest) { return sort_first("topk", x, k, axis, largest); }

}  // namespace sluice
