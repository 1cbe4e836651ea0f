#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "training/decoding/decoder.h"

namespace sluice::training {

struct SamplingOptions {
  double temperature = 1;  ///< 0 = the most likely token always
  int64_t top_k = 0;       ///< keep the k most likely; 0 = all
  double top_p = 1;        ///< keep the smallest set whose probability reaches p
  uint64_t seed = 0;
};

/// Continues a prompt with a decoder of one row: calls `emit` for each new token until it returns false or `count` tokens came.
/// Errors  UsageError when the prompt is empty, prompt + count is longer than the decoder's capacity, and for a decoder of other rows.
void sample(Decoder& decoder, std::span<const int32_t> prompt, int64_t count, const SamplingOptions& options,
            const std::function<bool(int32_t)>& emit);

/// Draws one token from logits: temperature, then top-k, then top-p; `random` in [0, 1). Of minus infinity a token never comes.
/// Errors  UsageError for no logits and for options out of range; Error for NaN or infinity among the logits, and where no token may come.
int32_t sample_token(std::vector<double> logits, const SamplingOptions& options, double random);

}  // namespace sluice::training
