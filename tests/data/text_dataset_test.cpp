#include "data/text_dataset.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "data/permutation.h"
#include "data/synthetic.h"
#include "expect_error.h"

namespace sluice::data {
namespace {

/// A text in which each token tells its position.
Tokens counting(int64_t size) {
  std::vector<int32_t> ids(static_cast<size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return Tokens::of(ids, std::max<int64_t>(1, size));
}

std::vector<int32_t> ids_of(const Tensor& x) { return {x.data<int32_t>(), x.data<int32_t>() + x.elements()}; }

std::vector<int32_t> sample(const Dataset& data, const std::string& input, Split split, int64_t epoch, int64_t index) {
  return ids_of(data.load(input, split, epoch, {&index, 1}));
}

RC_GTEST_PROP(Permutation, IsAPermutationForEveryKeyAndSize, (uint64_t key)) {
  const auto size = *rc::gen::inRange<int64_t>(0, 3000);
  const Permutation order(size, key);
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t value = order[i];
    RC_ASSERT(value >= 0 && value < size && !seen[static_cast<size_t>(value)]);
    seen[static_cast<size_t>(value)] = true;
  }
}

TEST(Permutation, PutsEachElementAtEachPlaceAboutEquallyOften) {
  constexpr int kSize = 6, kKeys = 6000;
  int counts[kSize][kSize] = {};
  for (uint64_t key = 0; key < kKeys; ++key)
    for (int i = 0; i < kSize; ++i) ++counts[i][Permutation(kSize, key * 0x9E3779B97F4A7C15u)[i]];
  for (const auto& row : counts)
    for (const int count : row) EXPECT_NEAR(count, kKeys / kSize, 200);
}

TEST(Permutation, WorksFarBeyondThirtyTwoBits) {
  const int64_t size = int64_t{1} << 40;
  const Permutation order(size, 7);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) seen.insert(order[size - 1 - i]);
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_LT(*seen.rbegin(), size);
  EXPECT_GT(*seen.rbegin(), size / 2);
}

RC_GTEST_PROP(TextDataset, KeepsTheSplitsApartAndItsWindowsWithinThem, (uint64_t seed)) {
  const auto context = *rc::gen::inRange<int64_t>(1, 40);
  const auto total = *rc::gen::inRange<int64_t>(8 * (context + 1), 20'000);
  const double fraction = *rc::gen::element(0.0, 0.05, 0.2, 0.5);
  if (fraction * static_cast<double>(total) < static_cast<double>(2 * context + 2) && fraction > 0) RC_DISCARD("too short");
  const TextDataset data(counting(total), context, fraction, seed);
  std::set<int32_t> validation;
  for (int64_t i = 0; i < data.size(Split::validation); ++i)
    for (const char* input : {"tokens", "targets"})
      for (const int32_t id : sample(data, input, Split::validation, 0, i)) validation.insert(id);
  const int64_t epoch = *rc::gen::inRange<int64_t>(0, 1000);
  std::set<int32_t> targets;
  for (int64_t i = 0; i < data.size(Split::train); ++i) {
    const auto tokens = sample(data, "tokens", Split::train, epoch, i), next = sample(data, "targets", Split::train, epoch, i);
    for (size_t k = 0; k < tokens.size(); ++k) {
      RC_ASSERT(next[k] == tokens[k] + 1);
      RC_ASSERT(!validation.count(tokens[k]) && !validation.count(next[k]));
      RC_ASSERT(targets.insert(next[k]).second);  // windows of an epoch share no target
    }
  }
}

TEST(TextDataset, SeesAlmostEveryTrainingTokenInAnEpochAndOtherWindowsInTheNext) {
  const TextDataset data(counting(100'000), 16, 0.1, 3);
  std::set<int32_t> seen;
  for (int64_t i = 0; i < data.size(Split::train); ++i)
    for (const int32_t id : sample(data, "targets", Split::train, 5, i)) seen.insert(id);
  EXPECT_GT(seen.size(), 88'000u);
  std::set<int32_t> starts;
  for (int64_t epoch = 0; epoch < 100; ++epoch) starts.insert(sample(data, "tokens", Split::train, epoch, 0)[0]);
  EXPECT_EQ(starts.size(), 16u);
  EXPECT_EQ(sample(data, "tokens", Split::validation, 0, 3), sample(data, "tokens", Split::validation, 9, 3));
}

TEST(TextDataset, ValidatesOnAllPartsOfTheText) {
  const TextDataset data(counting(100'000), 16, 0.1, 3);
  EXPECT_LT(sample(data, "tokens", Split::validation, 0, 0)[0], 5'000);
  EXPECT_GT(sample(data, "tokens", Split::validation, 0, data.size(Split::validation) - 1)[0], 95'000);
}

TEST(TextDataset, LoadsRowsInTheOrderAskedFor) {
  const TextDataset data(counting(1000), 4, 0.1, 3);
  const std::vector<int64_t> rows{5, 0, 5};
  const Tensor x = data.load("tokens", Split::train, 0, rows);
  EXPECT_EQ(x.shape(), (Shape{3, 4}));
  EXPECT_EQ(ids_of(x.slice(0, 0, 1)), ids_of(x.slice(0, 2, 3)));
  EXPECT_EQ(ids_of(x.slice(0, 1, 2)), sample(data, "tokens", Split::train, 0, 0));
  EXPECT_EQ(data.load("tokens", Split::train, 0, {}).shape(), (Shape{0, 4}));
}

TEST(TextDataset, SaysWhatIsTooShortOrOutOfRange) {
  EXPECT_EQ(TextDataset(counting(9), 8, 0, 1).size(Split::train), 1);
  EXPECT_EQ(TextDataset(counting(9), 1, 0, 1).size(Split::validation), 0);
  expect_error<DataError>([] { TextDataset(counting(8), 8, 0, 1); }, {"8 tokens", "smaller context"});
  expect_error<DataError>([] { TextDataset(counting(0), 8, 0, 1); }, {"0 tokens"});
  expect_error<DataError>([] { TextDataset(counting(100), 20, 0.1, 1); }, {"validation", "10 tokens", "smaller context"});
  expect_error<UsageError>([] { TextDataset(counting(100), 0, 0.1, 1); }, {"context", "got 0"});
  expect_error<UsageError>([] { TextDataset(counting(100), 8, 0.9, 1); }, {"fraction", "0.9"});
  expect_error<UsageError>([] { TextDataset(counting(100), 8, std::nan(""), 1); }, {"fraction"});
  const TextDataset data(counting(1000), 8, 0.1, 1);
  expect_error<UsageError>([&] { sample(data, "image", Split::train, 0, 0); }, {"'image'", "tokens, targets"});
  expect_error<UsageError>([&] { sample(data, "tokens", Split::train, 0, 100'000); }, {"100000"});
  expect_error<UsageError>([&] { sample(data, "tokens", Split::train, 0, -1); }, {"-1"});
}

/// The window of one token more overflowed: a crash, and with some contexts a data set of windows that are not there.
TEST(LanguageDataset, RefusesContextsAndVocabulariesBeyond32Bits) {
  for (const int64_t context : {INT64_MAX, INT64_MAX / 16, int64_t{1} << 31})
    expect_error<UsageError>([&] { TextDataset(counting(100), context, 0, 0); },
                             {"context of 1 to 2147483647 tokens", std::to_string(context)});
  expect_error<DataError>([&] { TextDataset(counting(100), INT32_MAX, 0, 0); }, {"100 tokens", "2147483648 tokens", "smaller context"});
  SyntheticText::Options options;
  options.vocabulary = (int64_t{1} << 31) + 1;
  expect_error<UsageError>([&] { SyntheticText{options}; }, {"vocabulary of 1 to 2147483648", "2147483649"});
}

TEST(SyntheticText, IsAFunctionOfTheSeedAndDiffersBetweenSplits) {
  const SyntheticText a({.seed = 1}), b({.seed = 1}), c({.seed = 2});
  EXPECT_EQ(sample(a, "tokens", Split::train, 0, 9), sample(b, "tokens", Split::train, 3, 9));
  EXPECT_NE(sample(a, "tokens", Split::train, 0, 9), sample(c, "tokens", Split::train, 0, 9));
  EXPECT_NE(sample(a, "tokens", Split::train, 0, 9), sample(a, "tokens", Split::validation, 0, 9));
  EXPECT_NE(sample(a, "tokens", Split::train, 0, 9), sample(a, "tokens", Split::train, 0, 10));
}

TEST(SyntheticText, WithoutNoiseTheNextTokenFollowsFromTwo) {
  const SyntheticText data({.vocabulary = 1000, .context = 50, .noise = 0});
  std::map<std::pair<int32_t, int32_t>, int32_t> follower;
  for (int64_t i = 0; i < 50; ++i) {
    const auto x = sample(data, "tokens", Split::train, 0, i), y = sample(data, "targets", Split::train, 0, i);
    for (size_t t = 1; t < x.size(); ++t) EXPECT_EQ(follower.try_emplace({x[t - 1] % 8, x[t] % 8}, y[t]).first->second, y[t]);
  }
  EXPECT_EQ(data.entropy(), 0);
  EXPECT_THROW(SyntheticText({.noise = 2}), UsageError);
  EXPECT_THROW(SyntheticText({.train_samples = 0}), UsageError);
}

}  // namespace
}  // namespace sluice::data
