#include "core/cuda/attention_slices.h"

#include <algorithm>

#include "core/cuda/cuda.h"

namespace sluice {

AttentionSlices attention_slices(int64_t samples, int64_t heads, int64_t queries, int64_t keys) {
  // 5 samples of GPT-2 (12 heads, 1024 tokens), 16 heads of 2048 tokens.
  constexpr int64_t kMostBytes = int64_t{128} << 20;
  const int64_t head_bytes = std::max<int64_t>(1, 2 * queries * keys);
  const auto largest_divisor = [](int64_t of, int64_t most) {
    int64_t divisor = std::clamp<int64_t>(most, 1, std::max<int64_t>(1, of));
    while (of % divisor != 0) --divisor;
    return divisor;
  };
  const int64_t most_heads = kMostBytes / head_bytes;
  AttentionSlices slices{1, heads};
  if (most_heads >= heads)
    slices.samples = largest_divisor(samples, most_heads / std::max<int64_t>(1, heads));
  else
    slices.heads = largest_divisor(heads, most_heads);
  // What else an algorithm keeps there is small.
  const int64_t bytes = slices.samples * slices.heads * head_bytes + (int64_t{1} << 20);
  if (bytes > Cuda::kWorkspaceBytes && bytes <= kMostBytes + (int64_t{1} << 20)) slices.workspace_bytes = bytes;
  return slices;
}

}  // namespace sluice
