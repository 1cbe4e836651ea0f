#include "data/ngram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>

#include "core/error.h"
#include "data/loader.h"
#include "data/synthetic.h"

namespace sluice::data {
namespace {

RC_GTEST_PROP(CountTable, CountsAsAMapDoes, (std::vector<uint64_t> keys)) {
  CountTable table;
  std::map<uint64_t, uint32_t> expected;
  for (const uint64_t key : keys)
    for (const uint64_t near : {key, key + 1, key % 7, key << 44}) {
      table.increment(near);
      ++expected[near];
    }
  for (const auto& [key, count] : expected) RC_ASSERT(table.count(key) == count);
  RC_ASSERT(table.count(UINT64_MAX - 12345) == (expected.count(UINT64_MAX - 12345) ? 1u : 0u));
}

TEST(CountTable, KeepsItsCountsWhenItGrows) {
  CountTable table;
  for (int round = 0; round < 3; ++round)
    for (uint64_t key = 0; key < 20'000; ++key) table.increment(key * key);
  for (uint64_t key = 0; key < 20'000; ++key) ASSERT_EQ(table.count(key * key), 3u);
}

RC_GTEST_PROP(Trigram, SumsToOneAfterAnyHistory, ()) {
  const auto vocabulary = *rc::gen::inRange<int32_t>(1, 20);
  const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, vocabulary));
  const Tokens tokens = Tokens::of(ids, vocabulary);
  const int64_t middle = tokens.size() / 3;
  const std::vector<TokenRange> ranges{{0, middle}, {middle, tokens.size()}};
  const Trigram model(tokens, ranges);
  const auto length = *rc::gen::inRange<size_t>(0, 3);
  const auto history = *rc::gen::container<std::vector<int32_t>>(length, rc::gen::inRange<int32_t>(0, vocabulary));
  for (int order = 0; order <= Trigram::kOrders; ++order) {
    double sum = 0;
    for (int32_t next = 0; next < vocabulary; ++next) {
      const double p = model.probability(history, next, order);
      RC_ASSERT(p > 0);
      sum += p;
    }
    RC_ASSERT(std::abs(sum - 1) < 1e-12);
  }
}

/// A long text of the noisy chain of SyntheticText: the samples of a data set, one after the other.
Tokens chain(int64_t vocabulary, double noise) {
  const SyntheticText data({.vocabulary = vocabulary, .context = 400'000, .seed = 5, .noise = noise, .train_samples = 1});
  const int64_t first = 0;
  const Tensor ids = data.load("tokens", Split::train, 0, {&first, 1});
  return Tokens::of({ids.data<int32_t>(), static_cast<size_t>(ids.elements())}, vocabulary);
}

TEST(Trigram, ComesNearTheEntropyOfAChainOfOrderTwoAndBeatsShorterHistories) {
  const SyntheticText source({.vocabulary = 16, .noise = 0.3});
  const TextDataset data(chain(16, 0.3), 64, 0.1, 1);
  const Trigram model(data.tokens(), data.ranges(Split::train));
  const auto samples = validation_samples(data, 0);
  const double unigram = model.loss(data, samples, 1), bigram = model.loss(data, samples, 2), trigram = model.loss(data, samples);
  EXPECT_LT(bigram, unigram);
  EXPECT_LT(trigram, bigram);
  EXPECT_NEAR(trigram, source.entropy(), 0.05);
  EXPECT_GT(trigram, source.entropy() - 0.01);
}

TEST(Trigram, IsNoWorseThanUniformOnTextWithoutStructure) {
  const TextDataset data(chain(100, 1.0), 64, 0.1, 1);
  const Trigram model(data.tokens(), data.ranges(Split::train));
  EXPECT_NEAR(model.loss(data, validation_samples(data, 0)), std::log(100), 0.01);
}

TEST(Trigram, ScoresTheWindowAsAModelSeesIt) {
  const TextDataset data(chain(16, 0.3), 8, 0.1, 1);
  const Trigram model(data.tokens(), data.ranges(Split::train));
  const std::vector<int64_t> one{3};
  const Tensor x = data.load("tokens", Split::validation, 0, one), y = data.load("targets", Split::validation, 0, one);
  double expected = 0;
  for (int i = 0; i < 8; ++i) {
    const int first = i == 0 ? 0 : i - 1;
    expected -= std::log(model.probability({x.data<int32_t>() + first, static_cast<size_t>(i - first + 1)}, y.data<int32_t>()[i])) / 8;
  }
  EXPECT_NEAR(model.loss(data, one), expected, 1e-12);
}

}  // namespace
}  // namespace sluice::data
