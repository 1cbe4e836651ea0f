#include "training/metrics/nearest_neighbour.h"

#include <algorithm>

#include "core/error.h"
#include "training/metrics/ngrams.h"

namespace sluice::training {

namespace {

constexpr int64_t kLongestNgram = 4;

int64_t all_ngrams(const Units& text) {
  int64_t sum = 0;
  for (int64_t n = 1; n <= kLongestNgram; ++n) sum += text.ngrams(n);
  return sum;
}

/// Calls visit(ngram, count) for each distinct n-gram.
template <class Visit>
void for_each_ngram(const Units& text, const Visit& visit) {
  for (int64_t n = 1; n <= kLongestNgram; ++n)
    for (const auto& [ngram, count] : count_ngrams(text, n)) visit(ngram, count);
}

}  // namespace

NearestNeighbour::NearestNeighbour(const std::vector<std::string>& sources, std::vector<std::string> targets)
    : targets_(std::move(targets)) {
  require(!sources.empty() && sources.size() == targets_.size(), "nearest neighbour: needs pairs of sentences, got ", sources.size(),
          " sources and ", targets_.size(), " targets");
  for (const auto& source : sources) {
    const Units text = characters(source);
    const auto pair = static_cast<uint32_t>(lengths_.size());
    lengths_.push_back(all_ngrams(text));
    for_each_ngram(text, [&](std::string_view ngram, int64_t count) {
      occurrences_[std::string(ngram)].push_back({pair, static_cast<uint32_t>(count)});
    });
  }
}

NearestNeighbour::Match NearestNeighbour::find(std::string_view source) const {
  const Units text = characters(source);
  std::vector<int64_t> shared(lengths_.size());
  for_each_ngram(text, [&](std::string_view ngram, int64_t count) {
    const auto found = occurrences_.find(ngram);
    if (found == occurrences_.end()) return;
    for (const auto& occurrence : found->second) shared[occurrence.pair] += std::min<int64_t>(occurrence.count, count);
  });
  const int64_t length = all_ngrams(text);
  size_t best = 0;
  for (size_t pair = 1; pair < shared.size(); ++pair)  // fractions compared as integers, so that ties are exact
    if (shared[pair] * (length + lengths_[best]) > shared[best] * (length + lengths_[pair])) best = pair;
  if (shared[best] == 0) return {};
  return {best, 2 * static_cast<double>(shared[best]) / static_cast<double>(length + lengths_[best])};
}

}  // namespace sluice::training
