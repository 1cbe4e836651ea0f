#pragma once
#include "core/tensor.h"

namespace sluice {

/// Throws unless lengths are i32 [B] for rows of B samples of one number of tokens. Errors  UsageError that begins with `op`.
void check_lengths(const char* op, const Tensor& lengths, int64_t samples);

/// Throws unless all lengths, on a CPU device, lie in [0, tokens]. Errors  UsageError that begins with `op` and names the sample.
void check_lengths_within(const char* op, const Tensor& lengths, int64_t tokens);

/// x with zeros in the place of padding: tokens from their sample's length on.
/// Shape   x [B, T, ...], lengths i32 [B] -> the same, row-major.
/// Dtypes  any.
/// Errors  UsageError naming the shapes.
/// Cost    one pass over x.
Tensor without_padding(const Tensor& x, const Tensor& lengths);

/// The numbers of the rows that are no padding, ascending, of lengths.dim(0) samples with `tokens` rows each. `lengths` on a CPU device.
/// Errors  UsageError for a length outside [0, tokens], naming the sample.
std::vector<int32_t> rows_without_padding(const char* op, const Tensor& lengths, int64_t tokens);

}  // namespace sluice
