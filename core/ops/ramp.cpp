#include "core/ops/ramp.h"

#include <algorithm>
#include <cmath>

#include "core/dispatch.h"
#include "core/ops/elementwise_operands.h"

namespace sluice {

namespace {

Tensor ramp(const char* op, const Ramp& numbers, DType dtype, const DevicePtr& device) {
  Tensor y = empty({numbers.count}, dtype, device);
  run_kernel(op, {y}, pass_cost(0, y), [&](auto& context) { kernels::ramp(context, numbers, y); });
  return y;
}

}  // namespace

Tensor arange(double begin, double end, double step, DType dtype, const DevicePtr& device) {
  const double steps = std::ceil((end - begin) / step);
  require(step != 0 && std::isfinite(steps), "arange: needs finite ends and a step that is not 0, got ", begin, ", ", end, " and ", step);
  require(steps < 0x1p62, "arange: needs fewer than 2^62 numbers, got ", steps, "; take a larger step");
  const auto count = static_cast<int64_t>(std::max(0.0, steps));
  const double last = begin + static_cast<double>(count - 1) * step;
  if (count > 0 && !is_floating(dtype)) {
    require(step == std::floor(step), "arange: needs a whole step for ", name_of(dtype), ", got ", step, "; take a floating dtype");
    for (const double bound : {begin, last}) require_holds("arange", dtype, bound);
  }
  return ramp("arange", {begin, step, last, count}, dtype, device);
}

Tensor linspace(double first, double last, int64_t count, DType dtype, const DevicePtr& device) {
  require(is_floating(dtype), "linspace: needs a floating dtype (f32, bf16, f64), got ", name_of(dtype), "; arange makes integers");
  require(count >= 0, "linspace: needs a count >= 0, got ", count);
  require(std::isfinite(last - first), "linspace: needs finite ends no farther apart than the largest double, got ", first, " and ", last);
  return ramp("linspace", {first, count > 1 ? (last - first) / static_cast<double>(count - 1) : 0, last, count}, dtype, device);
}

}  // namespace sluice
