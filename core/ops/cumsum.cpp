#include "core/ops/cumsum.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

Tensor scan(const char* op, const Tensor& x, int axis, bool from_end) {
  require(x.dtype() != DType::u8, op, ": needs floats, i32 or i64, got ", x, "; cast() it to i32, as sums soon exceed u8");
  const AxisView around(x.shape(), normal_axis(op, axis, x.rank()));
  const ScanView view{around.outer, around.n, around.inner, from_end};
  const Tensor from = x.contiguous(), y = empty_like(x);
  const int64_t chunks = view.chunks() > 1 ? view.chunks() : 0;
  const Tensor partial =
      empty({view.outer, chunks, view.inner}, is_floating(x.dtype()) ? compute_dtype(x.dtype()) : x.dtype(), x.device_ptr());
  const auto bytes = static_cast<double>(x.bytes());
  run_kernel(op, {from}, {static_cast<double>(x.elements()), bytes, bytes},
             [&](auto& context) { kernels::cumsum(context, view, from, partial, y); });
  return y;
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis) { return scan("cumsum", x, axis, false); }
Tensor cumsum_backward(const Tensor& dy, int axis) { return scan("cumsum_backward", dy, axis, true); }

}  // namespace sluice
