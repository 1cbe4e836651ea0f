#include "training/decoding/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/distributions.h"
#include "core/random.h"

namespace sluice::training {

void sample(Decoder& decoder, std::span<const int32_t> prompt, int64_t count, const SamplingOptions& options,
            const std::function<bool(int32_t)>& emit) {
  const int64_t capacity = decoder.options().capacity;
  require(decoder.options().rows == 1, "sample: needs a decoder of one row, got ", decoder.options().rows);
  require(!prompt.empty(), "sample: needs a prompt of at least one token");
  require(count >= 0 && count <= capacity - static_cast<int64_t>(prompt.size()), "sample: needs prompt + new tokens <= the context of ",
          capacity, ", got ", prompt.size(), " + ", count, "; shorten the prompt or ask for fewer tokens");
  std::vector<int32_t> pending(prompt.begin(), prompt.end());
  const Decoder::Inputs nothing;
  const uint64_t key = random_key(options.seed, "generate");
  for (int64_t i = 0; i < count; ++i) {
    const Shape shape{1, static_cast<int64_t>(pending.size())};
    const Decoder::Feed feed{.tokens = tensor_of({pending.begin(), pending.end()}, shape, DType::i32),
                             .begins_with = i == 0 ? &nothing : nullptr};
    const auto logits = decoder.advance(std::span(&feed, 1)).to_vector();
    const uint32_t word = philox({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})[0];
    pending = {sample_token(logits, options, uniform_from(word))};
    if (!emit(pending[0])) break;
  }
  decoder.end(0);
}

namespace {

/// Sets all but the k largest to minus infinity.
void keep_top_k(std::vector<double>& logits, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(logits.size())) return;
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::nth_element(order, order.begin() + k,
                           [&](size_t a, size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  for (size_t i = static_cast<size_t>(k); i < order.size(); ++i) logits[order[i]] = -INFINITY;
}

std::vector<double> softmax_of(const std::vector<double>& logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> weights(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += weights[i] = std::exp(logits[i] - largest);
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Keeps the smallest set of most likely tokens whose probability reaches p; the others get zero.
void keep_top_p(std::vector<double>& weights, double p) {
  if (p >= 1) return;
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  double sum = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (rank > 0 && sum >= p) weights[order[rank]] = 0;
    sum += weights[order[rank]];
  }
}

}  // namespace

int32_t sample_token(std::vector<double> logits, const SamplingOptions& options, double random) {
  require(!logits.empty(), "sample: needs at least one logit");
  require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature: needs a finite number >= 0, got ",
          options.temperature);
  require(options.top_k >= 0, "top-k: needs a number >= 0 (0 = all), got ", options.top_k);
  require(options.top_p > 0 && options.top_p <= 1, "top-p: needs a number in (0, 1], got ", options.top_p);
  for (size_t i = 0; i < logits.size(); ++i)
    require<Error>(logits[i] < INFINITY, "sample: needs logits that are numbers, or minus infinity for tokens that never come, got ",
                   logits[i], " for token ", i, ": the weights are not finite, or too large for the precision; use an older checkpoint");
  const auto most_likely = std::ranges::max_element(logits);
  require<Error>(*most_likely > -INFINITY, "sample: needs a token that may come, got minus infinity for all ", logits.size());
  if (options.temperature == 0) return static_cast<int32_t>(most_likely - logits.begin());
  // The largest becomes 0 before the division, which a small temperature takes to infinity.
  for (const double largest = *most_likely; double& logit : logits) logit = (logit - largest) / options.temperature;
  keep_top_k(logits, options.top_k);
  std::vector<double> weights = softmax_of(logits);
  keep_top_p(weights, options.top_p);
  double rest = random * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i)
    if ((rest -= weights[i]) < 0) return static_cast<int32_t>(i);
  return static_cast<int32_t>(std::ranges::max_element(weights) - weights.begin());
}

}  // namespace sluice::training
