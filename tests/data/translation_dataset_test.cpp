#include "data/parallel/translation_dataset.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "data/parallel/synthetic_translation.h"
#include "expect_error.h"

namespace sluice::data {
namespace {

using Ids = std::vector<int32_t>;

Ids ids_of(const Tensor& x) { return {x.data<int32_t>(), x.data<int32_t>() + x.elements()}; }

Ids sample(const Dataset& data, const std::string& input, int64_t index, Split split = Split::train) {
  return ids_of(data.load(input, split, 0, {&index, 1}));
}

TranslationDataset two_pairs() {
  TokenPairs pairs, validation;
  pairs.add(Ids{90, 91, 5, 6, 1}, Ids{91, 7, 8, 9, 1}, 0);
  pairs.add(Ids{90, 92, 5, 6, 7, 8, 9, 10, 1}, Ids{92, 4, 1}, 1);
  pairs.add(Ids{90, 92, 1}, Ids{92, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1);
  validation.add(Ids{90, 92, 11, 1}, Ids{92, 12, 1}, 1);
  return {pairs, validation, {.longest = {10, 10}, .buckets = 4}};
}

TEST(TranslationDataset, PadsEachSampleToItsBucket) {
  const auto data = two_pairs();
  EXPECT_EQ(data.longest(), (PairLengths{10, 10}));
  ASSERT_EQ(data.size(Split::train), 2);
  EXPECT_EQ(data.too_long(Split::train), 1);
  EXPECT_EQ(data.too_long(Split::validation), 0);
  EXPECT_EQ(sample(data, "source", 0), (Ids{90, 91, 5, 6, 1, 0}));
  EXPECT_EQ(sample(data, "source_length", 0), Ids{5});
  EXPECT_EQ(sample(data, "target", 0), (Ids{91, 7, 8, 9}));
  EXPECT_EQ(sample(data, "target_length", 0), Ids{4});
  EXPECT_EQ(sample(data, "labels", 0), (Ids{7, 8, 9, 1}));
  EXPECT_EQ(sample(data, "source", 1), (Ids{90, 92, 5, 6, 7, 8, 9, 10, 1, 0}));
  EXPECT_EQ(sample(data, "labels", 1), (Ids{4, 1, -100, -100}));
  EXPECT_EQ(sample(data, "target", 0, Split::validation), (Ids{92, 12, 0, 0}));
  EXPECT_EQ(data.group(Split::train, 1), 1);
}

TEST(TranslationDataset, GivesOneDimensionOfLengths) {
  const auto data = two_pairs();
  const std::vector<int64_t> twice{0, 0};
  EXPECT_EQ(data.load("source_length", Split::train, 0, twice).shape(), Shape{2});
  EXPECT_EQ(data.load("labels", Split::train, 0, twice).shape(), (Shape{2, 4}));
  EXPECT_EQ(data.load("labels", Split::train, 0, {}).shape(), (Shape{0, 10}));
}

TEST(TranslationDataset, RefusesWhatItCannotLoad) {
  const auto data = two_pairs();
  const std::vector<int64_t> mixed{0, 1}, outside{2};
  expect_error<UsageError>([&] { data.load("source", Split::train, 0, mixed); }, {"one bucket", "0 and 1"});
  expect_error<UsageError>([&] { data.load("source", Split::train, 0, outside); }, {"0..1", "got 2"});
  expect_error<UsageError>([&] { data.load("tokens", Split::train, 0, {}); }, {"'tokens'", "source, source_length, target"});
  TokenPairs pairs;
  EXPECT_THROW(pairs.add(Ids{}, Ids{1, 2}, 0), UsageError);
  EXPECT_THROW(pairs.add(Ids{1}, Ids{1}, 0), UsageError);
  EXPECT_THROW(pairs.add(Ids{1}, Ids{1, 2}, -1), UsageError);
  pairs.add(Ids{1, 2, 3}, Ids{1, 2, 3}, 0);
  expect_error<DataError>([&] { TranslationDataset(pairs, {}, {.longest = {2, 2}}); }, {"none of 1", "2 source", "longer limit"});
  EXPECT_THROW(TranslationDataset(pairs, {}, {.longest = {0, 4}}), UsageError);
  EXPECT_THROW(TranslationDataset(pairs, {}, {.buckets = 0}), UsageError);
}

TEST(TranslationDataset, HasAFullBatchOfTheLongestBucket) {
  const Batch batch = two_pairs().longest_batch(3);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.load("source", 0, 3).shape(), (Shape{3, 10}));
  EXPECT_EQ(ids_of(batch.load("source_length", 1, 2)), (Ids{10, 10}));
  for (const int32_t id : ids_of(batch.load("labels", 0, 3))) EXPECT_GT(id, 0);
}

RC_GTEST_PROP(Buckets, AreFewHoldAllThatFitsAndEndWithTheLongest, ()) {
  const auto length = rc::gen::inRange<int64_t>(1, *rc::gen::element<int64_t>(9, 40, 300));
  const PairLengths longest{*rc::gen::inRange<int64_t>(1, 200), *rc::gen::inRange<int64_t>(1, 200)};
  const auto most = *rc::gen::inRange<int64_t>(1, 16);
  std::vector<PairLengths> lengths;
  for (int64_t i = *rc::gen::inRange<int64_t>(0, 400); i > 0; --i) lengths.push_back({*length, *length});
  const auto buckets = choose_buckets(lengths, longest, most);
  RC_ASSERT(!buckets.empty() && static_cast<int64_t>(buckets.size()) <= most);
  RC_ASSERT(buckets.back() == longest);
  for (const auto& pair : lengths) {
    const int64_t bucket = find_bucket(buckets, pair);
    RC_ASSERT((bucket >= 0) == pair.fits(longest));
    if (bucket >= 0) RC_ASSERT(pair.fits(buckets[static_cast<size_t>(bucket)]));
    for (int64_t smaller = 0; smaller < bucket; ++smaller) RC_ASSERT(!pair.fits(buckets[static_cast<size_t>(smaller)]));
  }
}

TEST(Buckets, FollowTheLengthsThatThereAre) {
  std::vector<PairLengths> lengths(1000, {7, 7});
  lengths.resize(1900, {20, 30});
  lengths.resize(1901, {12, 12});  // too few for a bucket of their own
  EXPECT_EQ(choose_buckets(lengths, {64, 64}, 12), (std::vector<PairLengths>{{8, 8}, {20, 32}, {64, 64}}));
  EXPECT_EQ(choose_buckets(lengths, {64, 64}, 2), (std::vector<PairLengths>{{20, 32}, {64, 64}}));
  EXPECT_EQ(choose_buckets({}, {64, 64}, 12), (std::vector<PairLengths>{{64, 64}}));
}

TEST(SyntheticTranslation, IsTheSourceBackwardsInTheLettersOfTheLanguage) {
  const auto data = synthetic_translation({.languages = 2, .vocabulary = 20, .train_samples = 300});
  std::map<std::pair<int32_t, int32_t>, int32_t> exchanged;
  for (int64_t i = 0; i < 300; ++i) {
    const auto length = static_cast<size_t>(sample(*data, "source_length", i)[0]);
    const Ids source = sample(*data, "source", i), target = sample(*data, "target", i), labels = sample(*data, "labels", i);
    EXPECT_EQ(source[0], 17);
    EXPECT_EQ(source[1], 18 + static_cast<int32_t>(data->group(Split::train, i)));
    EXPECT_EQ(target[0], source[1]);
    EXPECT_EQ(source[length - 1], 1);
    EXPECT_EQ(labels[length - 3], 1);
    for (size_t k = 0; k + 3 < length; ++k) {
      EXPECT_EQ(labels[k], target[k + 1]);
      EXPECT_EQ(exchanged.try_emplace({source[1], source[length - 2 - k]}, labels[k]).first->second, labels[k]);
    }
  }
  EXPECT_EQ(exchanged.size(), 2u * 15u);
}

TEST(SyntheticTranslation, IsAFunctionOfTheSeedAndKeepsTheSplitsApart) {
  const SyntheticTranslationOptions options{.shortest = 1, .longest = 3, .train_samples = 2000, .validation_samples = 500};
  const auto a = synthetic_translation(options), b = synthetic_translation(options);
  auto other = options;
  other.seed = 1;
  const auto c = synthetic_translation(other);
  EXPECT_EQ(sample(*a, "source", 9), sample(*b, "source", 9));
  int different = 0;
  for (int64_t i = 0; i < 20; ++i) different += sample(*a, "source", i) != sample(*c, "source", i);
  EXPECT_GT(different, 10);
  std::set<Ids> seen;
  const auto letters = [&](Split split, int64_t i) {
    Ids ids = sample(*a, "source", i, split);
    return Ids(ids.begin() + 2, ids.begin() + sample(*a, "source_length", i, split)[0]);
  };
  for (int64_t i = 0; i < a->size(Split::train); ++i) seen.insert(letters(Split::train, i));
  for (int64_t i = 0; i < a->size(Split::validation); ++i) EXPECT_FALSE(seen.count(letters(Split::validation, i)));
}

TEST(SyntheticTranslation, RefusesBadOptions) {
  EXPECT_THROW(synthetic_translation({.languages = 0}), UsageError);
  EXPECT_THROW(synthetic_translation({.vocabulary = 7}), UsageError);
  EXPECT_THROW(synthetic_translation({.shortest = 0}), UsageError);
  EXPECT_THROW(synthetic_translation({.shortest = 5, .longest = 4}), UsageError);
  EXPECT_THROW(synthetic_translation({.validation_samples = 0}), UsageError);
}

}  // namespace
}  // namespace sluice::data
