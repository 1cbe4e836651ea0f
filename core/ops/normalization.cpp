#include "core/ops/normalization.h"

#include <algorithm>

#include "core/dispatch.h"

namespace sluice {

namespace {

void check_weight(const char* op, const char* name, const Tensor& x, const Tensor& weight) {
  require(weight.shape() == Shape{x.dim(-1)} && weight.dtype() == x.dtype(), op, ": needs ", name, " ", name_of(x.dtype()), " ",
          Shape{x.dim(-1)}, " for x ", x.shape(), ", got ", weight);
}

NormalizedRows normalize(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require(x.rank() >= 1 && x.dim(-1) > 0, op, ": needs a non-empty last axis, got ", x);
  check_weight(op, "gamma", x, gamma);
  if (beta.defined()) check_weight(op, "beta", x, beta);
  const Tensor rows = x.contiguous();
  const Shape statistics = x.shape().without(-1);
  NormalizedRows result{empty_like(x), {}, empty(statistics, compute_dtype(x.dtype()), x.device_ptr())};
  if (beta.defined()) result.mean = empty_like(result.rstd);
  const auto bytes = static_cast<double>(x.bytes());
  run_kernel(x.device(), {7 * static_cast<double>(x.elements()), bytes, bytes},
             [&](auto& context) { kernels::normalize(context, rows, gamma, beta, epsilon, result); });
  return result;
}

/// At most 32 chunks, so that their sums stay small beside x, of at least 16 rows.
int64_t chunk_rows(int64_t rows) { return std::max<int64_t>(16, (rows + 31) / 32); }

Tensor add_chunks(const Tensor& chunk_sums, int64_t which, DType dtype) {
  const Tensor total = empty({chunk_sums.dim(-1)}, dtype, chunk_sums.device_ptr());
  const Cost cost{static_cast<double>(chunk_sums.dim(0) * total.elements()), 0, static_cast<double>(total.bytes())};
  run_kernel(total.device(), cost, [&](auto& context) { kernels::add_chunks(context, chunk_sums, which, total); });
  return total;
}

}  // namespace

NormalizedRows layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require(beta.defined(), "layer_norm: needs beta, got ", beta, "; rms_norm has none");
  return normalize("layer_norm", x, gamma, beta, epsilon);
}

NormalizedRows rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) { return normalize("rms_norm", x, gamma, {}, epsilon); }

NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                              const Tensor& rstd, NormalizationNeeds needs) {
  const Tensor dy_rows = dy.contiguous(), x_rows = x.contiguous();
  const int64_t rows = rstd.elements(), rows_per_chunk = chunk_rows(rows);
  NormalizationGradients result;
  Tensor chunk_sums;
  if (needs.x) result.x = empty_like(x);
  if (needs.weights)
    chunk_sums = empty({(rows + rows_per_chunk - 1) / rows_per_chunk, mean.defined() ? 2 : 1, x.dim(-1)}, rstd.dtype(), x.device_ptr());
  const auto bytes = static_cast<double>(x.bytes());
  const double flops = (needs.x ? 11 : 0) + (needs.weights ? 5 : 0);
  run_kernel(x.device(), {flops * static_cast<double>(x.elements()), 2 * bytes, needs.x ? bytes : 0}, [&](auto& context) {
    kernels::normalization_backward(context, dy_rows, x_rows, gamma, mean, rstd, rows_per_chunk, result.x, chunk_sums);
  });
  if (needs.weights) result.gamma = add_chunks(chunk_sums, 0, gamma.dtype());
  if (needs.weights && mean.defined()) result.beta = add_chunks(chunk_sums, 1, gamma.dtype());
  return result;
}

}  // namespace sluice
