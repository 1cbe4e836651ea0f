#include "core/ops/drop_path.h"

#include <cmath>

#include "core/dispatch.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

void check(const char* op, const Tensor& x, double keep, const RandomStream& stream) {
  require(keep > 0 && keep <= 1, op, ": needs a probability 0 < keep <= 1, got ", keep);
  require(x.rank() >= 1 && is_floating(x.dtype()), op, ": needs floating samples along axis 0, got ", x);
  require_samples_first(op, x.shape(), stream);
}

Tensor masked(const Tensor& x, const Tensor& residual, double keep, const RandomStream& stream) {
  const Tensor from = x.contiguous(), y = empty_like(x);
  const double bytes_read = static_cast<double>(x.bytes()) * (residual.defined() ? 2 : 1);
  const Cost cost{static_cast<double>(x.elements()), bytes_read, static_cast<double>(y.bytes())};
  run_kernel("drop_path", {from, residual}, cost,
             [&](auto& context) { kernels::drop_path(context, from, residual, SampleMask(keep, stream), y); });
  return y;
}

}  // namespace

SampleMask::SampleMask(double keep, const RandomStream& numbers)
    : stream(numbers), threshold(static_cast<uint32_t>(std::ceil((1 - keep) * 0x1p24))), factor(1 / keep) {}

Tensor drop_path(const Tensor& x, double keep, const RandomStream& stream) {
  check("drop_path", x, keep, stream);
  return keep == 1 ? x : masked(x, {}, keep, stream);
}

Tensor drop_path_add(const Tensor& x, const Tensor& residual, double keep, const RandomStream& stream) {
  check("drop_path_add", x, keep, stream);
  require(x.shape() == residual.shape() && x.dtype() == residual.dtype(), "drop_path_add: needs x and residual alike, got ", x, " and ",
          residual);
  return keep == 1 ? add(residual, x) : masked(x, residual.contiguous(), keep, stream);
}

}  // namespace sluice
