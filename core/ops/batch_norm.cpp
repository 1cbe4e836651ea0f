#include "core/ops/batch_norm.h"

#include <algorithm>
#include <array>

#include "core/dispatch.h"
#include "core/ops/copy.h"

namespace sluice {

namespace {

constexpr int64_t kChunkElements = 32768, kLeastChunkRows = 64, kMostChunkRows = 1024;
constexpr int64_t kGpuBlocks = 4 * 132, kGpuBlockColumns = 256;  // four blocks for each multiprocessor of an H200

int64_t rows_of(const Tensor& x) { return x.shape().elements_before(-1); }

/// Rows of a chunk: on the CPU what stays in the cache, on a GPU what fills it with blocks of threads, in whole groups of 64 rows.
int64_t chunk_rows(const Tensor& x) {
  const int64_t columns = x.dim(-1);
  if (x.device().backend() != DeviceKind::cuda) return std::clamp(kChunkElements / columns, kLeastChunkRows, kMostChunkRows);
  const int64_t blocks_across = (columns + kGpuBlockColumns - 1) / kGpuBlockColumns;
  const int64_t chunks = std::max<int64_t>(1, kGpuBlocks / blocks_across), rows = (rows_of(x) + chunks - 1) / chunks;
  return std::max<int64_t>(1, (rows + kLeastChunkRows - 1) / kLeastChunkRows) * kLeastChunkRows;
}

Tensor chunk_sums_of(const Tensor& x, int64_t rows_per_chunk) {
  const int64_t chunks = (rows_of(x) + rows_per_chunk - 1) / rows_per_chunk;
  return empty({2, chunks, x.dim(-1)}, compute_dtype(x.dtype()), x.device_ptr());
}

void check(const char* op, const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  require(x.rank() >= 1 && x.dim(-1) > 0 && is_floating(x.dtype()), op, ": needs floating images [..., channels] with a channel, got ", x);
  require(epsilon > 0, op, ": needs an epsilon > 0, got ", epsilon);
  const auto check_weight = [&](const char* name, const Tensor& weight) {
    require(weight.shape() == Shape{x.dim(-1)} && weight.dtype() == x.dtype(), op, ": needs ", name, " ", name_of(x.dtype()), " ",
            Shape{x.dim(-1)}, " for x ", x.shape(), ", got ", weight);
  };
  check_weight("gamma", gamma);
  check_weight("beta", beta);
}

/// As kernels read it: in the dtype of the arithmetic, element by element.
ChannelNorm contiguous(ChannelNorm norm, const Tensor& x) {
  const DType dtype = compute_dtype(x.dtype());
  norm.gamma = norm.gamma.contiguous();
  norm.beta = norm.beta.contiguous();
  norm.mean = cast(norm.mean, dtype).contiguous();
  norm.variance = cast(norm.variance, dtype).contiguous();
  return norm;
}

Tensor normalize(const Tensor& x, const ChannelNorm& given) {
  const ChannelNorm norm = contiguous(given, x);
  const Tensor y = empty_like(x);
  const auto bytes = static_cast<double>(x.bytes());
  run_kernel("batch_norm", {x, norm.gamma, norm.beta, norm.mean, norm.variance}, {3 * static_cast<double>(x.elements()), bytes, bytes},
             [&](auto& context) { kernels::normalize_channels(context, x, norm, chunk_rows(x), y); });
  return y;
}

}  // namespace

BatchNormalized batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon, bool relu) {
  check("batch_norm", x, gamma, beta, epsilon);
  require(x.elements() > 0, "batch_norm: needs at least one element a channel to take a mean of, got ", x);
  const Tensor from = x.contiguous();
  const Tensor mean = empty({x.dim(-1)}, compute_dtype(x.dtype()), x.device_ptr()), variance = empty_like(mean);
  {
    const int64_t rows_per_chunk = chunk_rows(from);
    const Tensor chunk_sums = chunk_sums_of(from, rows_per_chunk);
    run_kernel("batch_norm", {from}, {4 * static_cast<double>(x.elements()), static_cast<double>(x.bytes()), 0},
               [&](auto& context) { kernels::batch_moments(context, from, rows_per_chunk, chunk_sums, mean, variance); });
  }
  return {normalize(from, {gamma, beta, mean, variance, epsilon, relu}), mean, variance};
}

Tensor batch_norm_inference(const Tensor& x, const ChannelNorm& norm) {
  check("batch_norm", x, norm.gamma, norm.beta, norm.epsilon);
  require(norm.mean.shape() == norm.gamma.shape() && norm.variance.shape() == norm.gamma.shape(),
          "batch_norm: needs a mean and a variance ", norm.gamma.shape(), " for x ", x.shape(), ", got ", norm.mean, " and ",
          norm.variance);
  return normalize(x.contiguous(), norm);
}

BatchNormGradients batch_norm_backward(const Tensor& dy, const Tensor& x, const ChannelNorm& norm, bool constant, BatchNormNeeds needs) {
  const Tensor gradient = dy.contiguous(), from = x.contiguous();
  const DType dtype = compute_dtype(x.dtype());
  const ChannelNorm moments = contiguous(norm, x);
  const auto bytes = static_cast<double>(x.bytes()), elements = static_cast<double>(x.elements());
  const int64_t rows_per_chunk = chunk_rows(from);
  const std::array<Operand, 6> operands{from, gradient, moments.gamma, moments.beta, moments.mean, moments.variance};
  Tensor dx, dgamma, dbeta;
  if (needs.weights || !constant) {
    dgamma = empty({x.dim(-1)}, dtype, x.device_ptr());
    dbeta = empty_like(dgamma);
    const Tensor chunk_sums = chunk_sums_of(from, rows_per_chunk);
    run_kernel("batch_norm_backward", operands, {6 * elements, 2 * bytes, 0}, [&](auto& context) {
      kernels::batch_norm_weight_gradients(context, gradient, from, moments, rows_per_chunk, chunk_sums, dgamma, dbeta);
    });
  }
  if (needs.x) {
    dx = empty_like(from);
    run_kernel("batch_norm_backward", operands, {8 * elements, 2 * bytes, bytes}, [&](auto& context) {
      kernels::batch_norm_input_gradient(context, gradient, from, moments, rows_per_chunk, constant ? Tensor() : dgamma,
                                         constant ? Tensor() : dbeta, dx);
    });
  }
  if (!needs.weights) return {dx, {}, {}};
  return {dx, dgamma, dbeta};
}

}  // namespace sluice
