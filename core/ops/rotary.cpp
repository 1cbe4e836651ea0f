#include "core/ops/rotary.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

Tensor rotate(const Tensor& x, int64_t rotated_heads, int64_t first_position, double base, int direction) {
  require(x.rank() == 4 && x.dim(3) % 2 == 0, "rotary: needs x [B, T, H, N] with an even N, got ", x.shape());
  require(0 <= rotated_heads && rotated_heads <= x.dim(2), "rotary: needs at most ", x.dim(2), " rotated heads for ", x.shape(), ", got ",
          rotated_heads);
  require(base > 0, "rotary: needs a positive base, got ", base);
  const Tensor from = x.contiguous();
  Tensor y = empty(x.shape(), x.dtype(), x.device_ptr());
  const Tensor table = empty({x.dim(1), x.dim(3)}, compute_dtype(x.dtype()), x.device_ptr());
  const double bytes = static_cast<double>(x.bytes());
  const Cost cost{3.0 * x.dim(0) * x.dim(1) * rotated_heads * x.dim(3), bytes, bytes};
  run_kernel("rotary", {from}, cost,
             [&](auto& context) { kernels::rotary(context, from, y, table, rotated_heads, first_position, base, direction); });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, int64_t rotated_heads, int64_t first_position, double base) {
  return rotate(x, rotated_heads, first_position, base, 1);
}

Tensor rotary_backward(const Tensor& dy, int64_t rotated_heads, int64_t first_position, double base) {
  return rotate(dy, rotated_heads, first_position, base, -1);
}

}  // namespace sluice
