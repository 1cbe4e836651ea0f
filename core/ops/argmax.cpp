#include "core/ops/argmax.h"

#include "core/dispatch.h"

namespace sluice {

Tensor argmax(const Tensor& x) {
  require(x.rank() >= 1 && x.dim(-1) > 0, "argmax: needs a non-empty last axis, got ", x);
  const Tensor rows = x.contiguous(), y = empty(x.shape().without(-1), DType::i64, x.device_ptr());
  const Cost cost{static_cast<double>(x.elements()), static_cast<double>(x.bytes()), static_cast<double>(y.bytes())};
  run_kernel("argmax", {rows}, cost, [&](auto& context) { kernels::argmax(context, rows, y); });
  return y;
}

}  // namespace sluice
