#include "core/ops/noise.h"

#include "core/dispatch.h"

namespace sluice {

Tensor noise(Noise kind, const Shape& shape, const RandomStream& stream, DType dtype, const DevicePtr& device) {
  require(shape.rank() >= 1 && is_floating(dtype), "noise: needs a floating dtype and samples along axis 0, got ", name_of(dtype), " ",
          shape);
  require_samples_first("noise", shape, stream);
  constexpr double kOperations = 45;  // about, an element: Philox, and half a logarithm, a root, a sine and a cosine
  const Tensor y = empty(shape, dtype, device);
  run_kernel("noise", {y}, {kOperations * static_cast<double>(y.elements()), 0, static_cast<double>(y.bytes())},
             [&](auto& context) { kernels::noise(context, kind, stream, y); });
  return y;
}

}  // namespace sluice
