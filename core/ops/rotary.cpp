#include "core/ops/rotary.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

Tensor rotate(const Tensor& x, int64_t rotated_heads, const Tensor& table, int direction) {
  require(x.rank() == 4 && x.dim(3) % 2 == 0, "rotary: needs x [B, T, H, N] with an even N, got ", x.shape());
  require(0 <= rotated_heads && rotated_heads <= x.dim(2), "rotary: needs at most ", x.dim(2), " rotated heads for ", x.shape(), ", got ",
          rotated_heads);
  require(table.defined() && table.rank() == 2 && table.dim(0) >= x.dim(1) && table.dim(1) == x.dim(3) &&
              table.dtype() == compute_dtype(x.dtype()),
          "rotary: needs a table of sinusoids ", name_of(compute_dtype(x.dtype())), " [at least ", x.dim(1), ", ", x.dim(3), "], got ",
          table);
  const Tensor from = x.contiguous(), angles = table.contiguous();
  Tensor y = empty(x.shape(), x.dtype(), x.device_ptr());
  const double bytes = static_cast<double>(x.bytes()), table_bytes = static_cast<double>(table.bytes());
  const Cost cost{3.0 * x.dim(0) * x.dim(1) * rotated_heads * x.dim(3), bytes + table_bytes, bytes};
  run_kernel("rotary", {from, angles}, cost, [&](auto& context) { kernels::rotary(context, from, y, angles, rotated_heads, direction); });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, int64_t rotated_heads, const Tensor& table) { return rotate(x, rotated_heads, table, 1); }

Tensor rotary_backward(const Tensor& dy, int64_t rotated_heads, const Tensor& table) { return rotate(dy, rotated_heads, table, -1); }

}  // namespace sluice
