#include "core/ops/sinusoids.h"

#include "core/dispatch.h"

namespace sluice {

Tensor sinusoids(const SinusoidTable& table, DType dtype, const DevicePtr& device) {
  constexpr double kFlops = 60;  // about, a power and a sine in f64
  require(table.first >= 0 && table.count >= 0 && table.width >= 0 && table.base > 0,
          "sinusoids: needs positions from 0, a width >= 0 and a base > 0, got ", table.count, " positions from ", table.first, ", width ",
          table.width, " and base ", table.base);
  require(is_floating(dtype), "sinusoids: needs a floating dtype (f32, bf16, f64), got ", name_of(dtype));
  const Tensor y = empty({table.count, table.width}, dtype, device);
  run_kernel("sinusoids", {y}, {kFlops * static_cast<double>(y.elements()), 0, static_cast<double>(y.bytes())},
             [&](auto& context) { kernels::sinusoids(context, table, y); });
  return y;
}

}  // namespace sluice
