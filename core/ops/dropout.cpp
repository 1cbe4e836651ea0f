#include "core/ops/dropout.h"

#include "core/dispatch.h"
#include "core/ops/elementwise.h"

namespace sluice {

namespace {

constexpr double kPhiloxOperations = 25;  // about, an element

void check(const char* op, const Tensor& x, double p, const RandomStream& stream) {
  require(p >= 0 && p < 1, op, ": needs a probability 0 <= p < 1, got ", p);
  require(x.rank() >= 1 && is_floating(x.dtype()), op, ": needs floating samples along axis 0, got ", x);
  require_samples_first(op, x.shape(), stream);
}

Tensor masked(const Tensor& x, const Tensor& residual, double p, const RandomStream& stream) {
  const Tensor from = x.contiguous();
  Tensor y = empty_like(x);
  const double bytes_read = static_cast<double>(x.bytes()) * (residual.defined() ? 2 : 1);
  const Cost cost{kPhiloxOperations * static_cast<double>(x.elements()), bytes_read, static_cast<double>(y.bytes())};
  run_kernel("dropout", {from, residual}, cost, [&](auto& context) { kernels::dropout(context, from, residual, p, stream, y); });
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, const RandomStream& stream) {
  check("dropout", x, p, stream);
  return p == 0 ? x : masked(x, {}, p, stream);
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& stream) {
  check("dropout_add", x, p, stream);
  require(x.shape() == residual.shape() && x.dtype() == residual.dtype(), "dropout_add: needs x and residual alike, got ", x, " and ",
          residual);
  return p == 0 ? add(residual, x) : masked(x, residual.contiguous(), p, stream);
}

}  // namespace sluice
