#include "training/metrics/nearest_neighbour.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

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

struct NearestNeighbour::Index {
  struct Occurrence {
    uint32_t pair, count;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  explicit Index(const std::vector<std::string>& sources) {
    for (const auto& source : sources) add(characters(source));
  }
  void add(const Units& source) {
    const auto pair = static_cast<uint32_t>(lengths.size());
    lengths.push_back(all_ngrams(source));
    for_each_ngram(source, [&](std::string_view ngram, int64_t count) {
      occurrences[std::string(ngram)].push_back({pair, static_cast<uint32_t>(count)});
    });
  }

  std::vector<int64_t> lengths;  ///< n-grams of each source
  std::unordered_map<std::string, std::vector<Occurrence>, Hash, std::equal_to<>> occurrences;
};

NearestNeighbour::NearestNeighbour(const std::vector<std::string>& sources, std::vector<std::string> targets)
    : targets_(std::move(targets)) {
  require(!sources.empty() && sources.size() == targets_.size(), "nearest neighbour: needs pairs of sentences, got ", sources.size(),
          " sources and ", targets_.size(), " targets");
  index_ = std::make_shared<const Index>(sources);
}

NearestNeighbour::Match NearestNeighbour::find(std::string_view source) const {
  const Units text = characters(source);
  const auto& lengths = index_->lengths;
  std::vector<int64_t> shared(lengths.size());
  for_each_ngram(text, [&](std::string_view ngram, int64_t count) {
    const auto found = index_->occurrences.find(ngram);
    if (found == index_->occurrences.end()) return;
    for (const auto& occurrence : found->second) shared[occurrence.pair] += std::min<int64_t>(occurrence.count, count);
  });
  const int64_t length = all_ngrams(text);
  size_t best = 0;
  for (size_t pair = 1; pair < shared.size(); ++pair)  // fractions compared as integers, so that ties are exact
    if (shared[pair] * (length + lengths[best]) > shared[best] * (length + lengths[pair])) best = pair;
  if (shared[best] == 0) return {};
  return {best, 2 * static_cast<double>(shared[best]) / static_cast<double>(length + lengths[best])};
}

}  // namespace sluice::training
