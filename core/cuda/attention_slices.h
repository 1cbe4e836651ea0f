#pragma once
#include <compare>
#include <cstdint>

namespace sluice {

/// How the gradients of attention are cut for cuDNN, whose deterministic algorithms want a workspace of 2 bytes for every pair of a query and
/// a key of every head: equal slices of whole samples or, where one sample has too many pairs, of heads of one sample. Neither reads what
/// another one has, so the bits are those of one call.
/// Source  github.com/NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training: 64 GiB for 128 heads of 16384 tokens.
struct AttentionSlices {
  int64_t samples = 0, heads = 0;  ///< of one slice
  int64_t workspace_bytes = 0;     ///< for one slice; 0 where the device's own workspace is enough, or nothing would be

  auto operator<=>(const AttentionSlices&) const = default;
};

/// As large as the workspace may be, or of one head: a function of the shape alone, so that plans count it and bits depend on nothing else.
AttentionSlices attention_slices(int64_t samples, int64_t heads, int64_t queries, int64_t keys);

}  // namespace sluice
