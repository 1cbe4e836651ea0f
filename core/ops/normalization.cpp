#include "core/ops/normalization.h"

#include <algorithm>

#include "core/dispatch.h"
#include "core/ops/gradient_sum.h"

namespace sluice {

namespace {

void check_weight(const char* op, const char* name, const Tensor& x, const Tensor& weight) {
  require(weight.shape() == Shape{x.dim(-1)} && weight.dtype() == x.dtype(), op, ": needs ", name, " ", name_of(x.dtype()), " ",
          Shape{x.dim(-1)}, " for x ", x.shape(), ", got ", weight);
}

NormalizedRows normalize(const char* op, const Tensor& x, const Tensor& residual, Tensor gamma, Tensor beta, double epsilon) {
  require(x.rank() >= 1 && x.dim(-1) > 0 && is_floating(x.dtype()), op, ": needs floats with a non-empty last axis, got ", x);
  check_weight(op, "gamma", x, gamma);
  if (beta.defined()) check_weight(op, "beta", x, beta);
  Tensor added;
  if (residual.defined()) {
    require(residual.shape() == x.shape() && residual.dtype() == x.dtype(), op, ": needs a residual like x, which is ", x, ", got ",
            residual);
    added = residual.contiguous();
  }
  gamma = gamma.contiguous();
  if (beta.defined()) beta = beta.contiguous();
  const Tensor rows = x.contiguous();
  const Shape statistics = x.shape().without(-1);
  NormalizedRows result{empty_like(x), {}, empty(statistics, compute_dtype(x.dtype()), x.device_ptr()), {}};
  if (beta.defined()) result.mean = empty_like(result.rstd);
  if (residual.defined()) result.sum = empty_like(x);
  const double bytes = (residual.defined() ? 2 : 1) * static_cast<double>(x.bytes());
  run_kernel(op, {rows, added, gamma, beta}, {7 * static_cast<double>(x.elements()), bytes, bytes},
             [&](auto& context) { kernels::normalize(context, rows, added, gamma, beta, epsilon, result); });
  return result;
}

/// Rows of a chunk: on the CPU at most 32 chunks, so that their sums stay small beside x, of at least 16 rows. On a GPU a chunk is a
/// block, and as many chunks as the 132 multiprocessors of an H200 have room for fill it.
int64_t chunk_rows(DeviceKind kind, DType dtype, int64_t rows) {
  const int64_t chunks = 132 * kernels::gradient_blocks(dtype);
  if (kind == DeviceKind::cuda) return std::max<int64_t>(8, (rows + chunks - 1) / chunks);
  return std::max<int64_t>(16, (rows + 31) / 32);
}

void add_chunks(const Tensor& chunk_sums, NormalizationGradients& result) {
  const auto total = [&] { return empty({chunk_sums.dim(-1)}, chunk_sums.dtype(), chunk_sums.device_ptr()); };
  result.gamma = total();
  if (chunk_sums.dim(1) == 2) result.beta = total();
  const auto bytes = static_cast<double>(result.gamma.bytes()) * static_cast<double>(chunk_sums.dim(1));
  run_kernel("add_chunks", {chunk_sums}, {static_cast<double>(chunk_sums.elements()), 0, bytes},
             [&](auto& context) { kernels::add_chunks(context, chunk_sums, result.gamma, result.beta); });
}

}  // namespace

NormalizedRows layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, const Tensor& residual) {
  require(beta.defined(), "layer_norm: needs beta, got ", beta, "; rms_norm has none");
  return normalize("layer_norm", x, residual, gamma, beta, epsilon);
}

NormalizedRows rms_norm(const Tensor& x, const Tensor& gamma, double epsilon, const Tensor& residual) {
  return normalize("rms_norm", x, residual, gamma, {}, epsilon);
}

NormalizationGradients normalization_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                              const Tensor& rstd, NormalizationNeeds needs, Tensor sum) {
  require(needs.x || !sum.defined(),
          "normalization_backward: needs to be asked for the gradient of x to add it to a sum, got a sum alone; leave it out");
  sum = row_major_sum("normalization_backward", sum, x.shape(), x.dtype());
  require(dy.shape() == x.shape() && dy.dtype() == x.dtype() && rstd.shape() == x.shape().without(-1),
          "normalization_backward: needs a gradient like x, ", x, ", and a rstd for each row, got ", dy, " and ", rstd);
  const Tensor dy_rows = dy.contiguous(), x_rows = x.contiguous(), weight = gamma.contiguous();
  const Tensor means = mean.defined() ? mean.contiguous() : mean, rstds = rstd.contiguous();
  const int64_t rows = rstd.elements(), rows_per_chunk = chunk_rows(x.device().backend(), x.dtype(), rows);
  NormalizationGradients result;
  Tensor chunk_sums;
  if (needs.x) result.x = empty_like(x);
  if (needs.weights)
    chunk_sums = empty({(rows + rows_per_chunk - 1) / rows_per_chunk, mean.defined() ? 2 : 1, x.dim(-1)}, rstd.dtype(), x.device_ptr());
  const auto bytes = static_cast<double>(x.bytes());
  Cost cost{((needs.x ? 11 : 0) + (needs.weights ? 5 : 0)) * static_cast<double>(x.elements()), 2 * bytes, needs.x ? bytes : 0};
  cost += sum_cost(sum);
  run_kernel("normalization_backward", {x_rows, dy_rows, weight, means, rstds, sum}, cost, [&](auto& context) {
    kernels::normalization_backward(context, dy_rows, x_rows, weight, means, rstds, rows_per_chunk, sum, result.x, chunk_sums);
  });
  if (needs.weights) add_chunks(chunk_sums, result);
  return result;
}

}  // namespace sluice
