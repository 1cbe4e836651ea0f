#include "data/batch_sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "data/loader.h"
#include "data/parallel/synthetic_translation.h"
#include "data/parallel/token_budget_sampler.h"
#include "expect_error.h"

namespace sluice::data {
namespace {

/// Pairs of which group 0 has nine in ten, with lengths from 3 to 40.
std::shared_ptr<const TranslationDataset> uneven_groups(int64_t samples) {
  TokenPairs train, validation;
  for (int64_t i = 0; i < samples + 50; ++i) {
    const std::vector<int32_t> source(static_cast<size_t>(3 + i * i % 38), 7), target(static_cast<size_t>(3 + i * 7 % 38), 8);
    (i < samples ? train : validation).add(source, target, i % 10 == 0 ? 1 : 0);
  }
  return std::make_shared<TranslationDataset>(train, validation, TranslationOptions{.longest = {40, 40}, .buckets = 6});
}

RC_GTEST_PROP(TokenBudgetSampler, GivesBatchesOfOneBucketWithinTheBudget, (uint64_t seed)) {
  const auto data = uneven_groups(*rc::gen::inRange<int64_t>(1, 600));
  const TokenBudgetOptions options{
      .samples = *rc::gen::inRange<int64_t>(1, 30), .temperature = *rc::gen::element(1.0, 2.0, 100.0), .seed = seed};
  const TokenBudgetSampler sampler(*data, options), again(*data, options);
  const auto epoch = *rc::gen::inRange<int64_t>(0, 5);
  std::map<int64_t, int64_t> batches;
  for (int64_t number = 0; number < sampler.batches_per_epoch(); ++number) {
    const auto samples = sampler.samples(epoch, number);
    RC_ASSERT(samples == again.samples(epoch, number));
    const int64_t bucket = data->bucket(Split::train, samples[0]), count = static_cast<int64_t>(samples.size());
    for (const int64_t sample : samples) RC_ASSERT(data->bucket(Split::train, sample) == bucket);
    RC_ASSERT(count == sampler.batch_samples(bucket) && count >= options.samples);
    const PairLengths lengths = data->buckets()[static_cast<size_t>(bucket)], longest = data->longest();
    const auto fits = [&](int64_t n) {
      return n * lengths.source <= options.samples * longest.source && n * lengths.target <= options.samples * longest.target;
    };
    RC_ASSERT(fits(count) && !fits(count + 1));
    ++batches[bucket];
  }
  for (const auto& [bucket, count] : batches) RC_ASSERT(count == sampler.batches_per_epoch(bucket));
}

/// How often an epoch draws each sample.
std::map<int64_t, int64_t> draws(const BatchSampler& sampler, int64_t epoch) {
  std::map<int64_t, int64_t> counts;
  for (int64_t number = 0; number < sampler.batches_per_epoch(); ++number)
    for (const int64_t sample : sampler.samples(epoch, number)) ++counts[sample];
  return counts;
}

TEST(TokenBudgetSampler, SeesNearlyEverySampleOnceAnEpochAtTemperatureOne) {
  const auto data = uneven_groups(5000);
  const TokenBudgetSampler sampler(*data, {.samples = 5});
  const auto counts = draws(sampler, 3);
  EXPECT_GT(counts.size(), 4850u);
  for (const auto& [sample, count] : counts) EXPECT_LE(count, 2) << sample;
}

TEST(TokenBudgetSampler, DrawsGroupsInProportionToTheirTemperedSizes) {
  const auto data = uneven_groups(5000);
  for (const auto& [temperature, share] : std::map<double, double>{{1, 0.1}, {2, 0.25}, {1e6, 0.5}}) {
    const TokenBudgetSampler sampler(*data, {.samples = 5, .temperature = temperature});
    double of_group = 0, all = 0;
    for (const auto& [sample, count] : draws(sampler, 0)) {
      all += static_cast<double>(count);
      if (data->group(Split::train, sample) == 1) of_group += static_cast<double>(count);
    }
    EXPECT_NEAR(of_group / all, share, 0.01) << temperature;
    EXPECT_NEAR(all, 5000, 150);
  }
}

TEST(TokenBudgetSampler, RepeatsTheSamplesOfASmallGroupEvenly) {
  const auto data = uneven_groups(2000);
  const TokenBudgetSampler sampler(*data, {.samples = 5, .temperature = 1e6});
  std::map<int64_t, std::set<int64_t>> counts;  // by bucket: how often the samples of group 1 came
  const auto drawn = draws(sampler, 0);
  for (int64_t sample = 0; sample < data->size(Split::train); ++sample)
    if (data->group(Split::train, sample) == 1) {
      const auto found = drawn.find(sample);
      counts[data->bucket(Split::train, sample)].insert(found == drawn.end() ? 0 : found->second);
    }
  for (const auto& [bucket, times] : counts) EXPECT_LE(*times.rbegin() - *times.begin(), 1) << bucket;
}

TEST(TokenBudgetSampler, HasAnotherOrderInEachEpochAndForEachSeed) {
  const auto data = uneven_groups(1000);
  const TokenBudgetSampler sampler(*data, {.samples = 5}), other(*data, {.samples = 5, .seed = 1});
  EXPECT_NE(sampler.samples(0, 0), sampler.samples(1, 0));
  EXPECT_NE(sampler.samples(0, 0), other.samples(0, 0));
}

TEST(TokenBudgetSampler, SpreadsBucketsOverTheEpoch) {
  const auto data = uneven_groups(5000);
  const TokenBudgetSampler sampler(*data, {.samples = 5});
  std::set<int64_t> early;
  for (int64_t number = 0; number < sampler.batches_per_epoch() / 4; ++number)
    early.insert(data->bucket(Split::train, sampler.samples(0, number)[0]));
  EXPECT_EQ(early.size(), data->buckets().size());
}

TEST(TokenBudgetSampler, RefusesBadOptions) {
  const auto data = uneven_groups(10);
  EXPECT_THROW(TokenBudgetSampler(*data, {.samples = 0}), UsageError);
  EXPECT_THROW(TokenBudgetSampler(*data, {.temperature = 0.5}), UsageError);
}

TEST(TokenBudgetLoader, GivesTheSameBatchesOfVaryingSizeForAnyNumberOfThreads) {
  const auto data = synthetic_translation({.train_samples = 500});
  const auto sampler = std::make_shared<TokenBudgetSampler>(*data, TokenBudgetOptions{.samples = 10});
  Loader plain(data, sampler, {.threads = 0}), threaded(data, sampler, {.threads = 3});
  EXPECT_EQ(plain.steps_per_epoch(), sampler->batches_per_epoch());
  std::set<int64_t> sizes;
  for (int64_t step = 0; step < 2 * plain.steps_per_epoch(); ++step) {
    const Batch a = plain.at(step), b = threaded.at(step);
    ASSERT_EQ(a.samples, b.samples);
    sizes.insert(a.samples);
    for (const auto& input : data->inputs()) {
      const Tensor x = a.load(input, 0, a.samples), y = b.load(input, 0, b.samples);
      ASSERT_EQ(x.shape(), y.shape());
      EXPECT_TRUE(std::equal(x.data<int32_t>(), x.data<int32_t>() + x.elements(), y.data<int32_t>())) << input;
    }
  }
  EXPECT_GT(sizes.size(), 1u);
}

TEST(TokenBudgetValidation, HasEverySampleOnceInBatchesOfOneBucket) {
  const auto data = uneven_groups(1000);
  const auto sampler = token_budget_validation(*data, {.samples = 10}, 0);
  const auto counts = draws(*sampler, 0);
  EXPECT_EQ(counts.size(), 50u);
  for (const auto& [sample, count] : counts) EXPECT_EQ(count, 1) << sample;
  ValidationLoader within_budget(data, sampler, {}), of_five(data, {.batch = 5}, 20);
  for (ValidationLoader* loader : {&within_budget, &of_five}) {
    int64_t samples = 0;
    for (int64_t number = 0; number < loader->size(); ++number)
      samples += loader->at(number).load("labels", 0, 1).dim(0) * loader->at(number).samples;
    EXPECT_EQ(samples, loader == &of_five ? 20 : 50);
  }
}

TEST(SequentialSampler, SplitsBatchesBetweenBucketsAndRefusesABatchOfNone) {
  const auto data = uneven_groups(100);
  const SequentialSampler sampler(*data, Split::train, {0, 1, 2, 3, 4, 5, 6, 7}, [](int64_t bucket) { return bucket == 0 ? 1 : 3; });
  std::set<int64_t> seen;
  for (int64_t number = 0; number < sampler.batches_per_epoch(); ++number) {
    const auto samples = sampler.samples(number, number);
    seen.insert(samples.begin(), samples.end());
    EXPECT_LE(samples.size(), data->bucket(Split::train, samples[0]) == 0 ? 1u : 3u);
  }
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(SequentialSampler(*data, Split::train, {}, [](int64_t) { return 1; }).batches_per_epoch(), 0);
  EXPECT_THROW(SequentialSampler(*data, Split::train, {0}, [](int64_t) { return 0; }), UsageError);
}

}  // namespace
}  // namespace sluice::data
