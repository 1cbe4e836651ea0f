#include "training/metrics/nearest_neighbour.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.h"
#include "tests/expect_error.h"

namespace sluice::training {
namespace {

using Strings = std::vector<std::string>;

/// All 1..4-grams of ASCII text without spaces, once for each occurrence.
Strings all_ngrams(std::string text) {
  std::erase(text, ' ');
  Strings result;
  for (size_t n = 1; n <= 4; ++n)
    for (size_t i = 0; i + n <= text.size(); ++i) result.push_back(text.substr(i, n));
  return result;
}

/// Shared n-grams, found by crossing them off one by one, and the sum of both texts' n-grams.
std::pair<int64_t, int64_t> compare(const std::string& a, const std::string& b) {
  const auto ours = all_ngrams(a);
  auto left = all_ngrams(b);
  const size_t sum = ours.size() + left.size();
  int64_t shared = 0;
  for (const auto& ngram : ours)
    if (const auto at = std::find(left.begin(), left.end(), ngram); at != left.end()) {
      left.erase(at);
      ++shared;
    }
  return {shared, static_cast<int64_t>(sum)};
}

RC_GTEST_PROP(NearestNeighbour, IsTheOneThatBruteForceFinds, ()) {
  const auto sentence = rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c', 'd', ' '));
  auto sources = *rc::gen::container<Strings>(sentence);
  sources.push_back(*sentence);  // at least one
  Strings targets;
  for (size_t i = 0; i < sources.size(); ++i) targets.push_back(std::to_string(i));
  const NearestNeighbour neighbours(sources, targets);
  const std::string query = *sentence;
  size_t best = 0;
  auto [best_shared, best_sum] = compare(query, sources[0]);
  for (size_t i = 1; i < sources.size(); ++i) {
    const auto [shared, sum] = compare(query, sources[i]);
    if (shared * best_sum <= best_shared * sum) continue;
    std::tie(best, best_shared, best_sum) = std::tuple(i, shared, sum);
  }
  if (best_shared == 0) best = 0;
  const auto match = neighbours.find(query);
  RC_ASSERT(match.pair == best);
  RC_ASSERT(match.score == (best_shared == 0 ? 0 : 2 * static_cast<double>(best_shared) / static_cast<double>(best_sum)));
  RC_ASSERT(neighbours.translate(query) == targets[best]);
}

TEST(NearestNeighbour, FindsEveryTrainingSentenceAgain) {
  const Strings sources{"the cat", "the dog", "der Hund", "\u72AC"};
  const NearestNeighbour neighbours(sources, {"0", "1", "2", "3"});
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(neighbours.find(sources[i]).pair, i);
    EXPECT_EQ(neighbours.find(sources[i]).score, 1);
  }
}

TEST(NearestNeighbour, TakesTheFirstOfEquallyNearOnes) {
  EXPECT_EQ(NearestNeighbour({"xy", "ab", "ba", "ab"}, {"0", "1", "2", "3"}).translate("ab"), "1");
  EXPECT_EQ(NearestNeighbour({"", "a"}, {"0", "1"}).translate("z"), "0");
}

TEST(NearestNeighbour, RefusesUnpairedSentences) {
  expect_error<UsageError>([] { NearestNeighbour({}, {}); }, {"0 sources"});
  expect_error<UsageError>([] { NearestNeighbour({"a"}, {"b", "c"}); }, {"1 sources and 2 targets"});
}

}  // namespace
}  // namespace sluice::training
