#include "core/ops/padding.h"

#include "core/ops/comparison.h"
#include "core/ops/ramp.h"
#include "core/ops/select.h"

namespace sluice {

void check_lengths(const char* op, const Tensor& lengths, int64_t samples) {
  require(lengths.shape() == Shape{samples} && lengths.dtype() == DType::i32, op, ": needs lengths i32 [", samples, "], got ", lengths);
}

Tensor without_padding(const Tensor& x, const Tensor& lengths) {
  require(x.rank() >= 2, "without_padding: needs x [B, T, ...], got ", x.shape());
  check_lengths("without_padding", lengths, x.dim(0));
  Shape samples{x.dim(0)}, tokens{x.dim(1)};
  for (int axis = 1; axis < x.rank(); ++axis) samples = samples.appended(1);
  for (int axis = 2; axis < x.rank(); ++axis) tokens = tokens.appended(1);
  const Tensor token = arange(0, static_cast<double>(x.dim(1)), 1, DType::i32, x.device_ptr()).reshape(tokens);
  return where(less(token, lengths.contiguous().reshape(samples)), x, 0.0);
}

void check_lengths_within(const char* op, const Tensor& lengths, int64_t tokens) {
  const auto* all = lengths.data<int32_t>();
  for (int64_t sample = 0; sample < lengths.elements(); ++sample)
    require(0 <= all[sample] && all[sample] <= tokens, op, ": needs lengths in [0, ", tokens, "], got ", all[sample], " of sample ", sample,
            "; give the number of tokens before the padding");
}

std::vector<int32_t> rows_without_padding(const char* op, const Tensor& lengths, int64_t tokens) {
  check_lengths_within(op, lengths, tokens);
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(lengths.elements() * tokens));
  const auto* all = lengths.data<int32_t>();
  for (int64_t sample = 0; sample < lengths.elements(); ++sample)
    for (int32_t token = 0; token < all[sample]; ++token) rows.push_back(static_cast<int32_t>(sample * tokens) + token);
  return rows;
}

}  // namespace sluice
