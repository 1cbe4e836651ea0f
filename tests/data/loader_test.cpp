#include "data/loader.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <set>

#include "core/error.h"
#include "data/synthetic.h"
#include "expect_error.h"

namespace sluice::data {
namespace {

DatasetPtr synthetic(int64_t samples) {
  return std::make_shared<SyntheticText>(SyntheticText::Options{.context = 3, .train_samples = samples, .validation_samples = 10});
}

std::vector<int32_t> ids_of(const Batch& batch, const std::string& input) {
  const Tensor x = batch.load(input, 0, batch.samples);
  return {x.data<int32_t>(), x.data<int32_t>() + x.elements()};
}

/// A data set whose only input tells the sample and the epoch; it counts loads and fails where told.
class Telltale : public Dataset {
 public:
  explicit Telltale(int64_t size) : size_(size) {}
  std::vector<std::string> inputs() const override { return {"sample", "unused"}; }
  int64_t size(Split) const override { return size_; }
  Tensor load(const std::string& input, Split, int64_t epoch, std::span<const int64_t> samples) const override {
    ++(input == "unused" ? unused_loads : loads);
    if (failing) throw DataError("the disk is gone");
    const auto rows = static_cast<int64_t>(samples.size());
    const Tensor x = empty({rows, 2}, DType::i64);
    for (int64_t i = 0; i < rows; ++i) {
      x.data<int64_t>()[2 * i] = samples[static_cast<size_t>(i)];
      x.data<int64_t>()[2 * i + 1] = epoch;
    }
    return x;
  }
  mutable std::atomic<int> loads{0}, unused_loads{0};
  std::atomic<bool> failing{false};

 private:
  int64_t size_;
};

RC_GTEST_PROP(Loader, GivesTheSameBatchesForAnyNumberOfThreadsInAnyOrderOfSteps, (uint64_t seed)) {
  const auto dataset = synthetic(*rc::gen::inRange<int64_t>(5, 40));
  Loader plain(dataset, {.batch = 5, .seed = seed, .threads = 0});
  const auto steps = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 30));
  for (int threads = 1; threads <= 4; ++threads) {
    Loader loader(dataset, {.batch = 5, .seed = seed, .threads = threads, .ahead = threads});
    for (const int64_t step : steps)
      for (const char* input : {"tokens", "targets"}) RC_ASSERT(ids_of(loader.at(step), input) == ids_of(plain.at(step), input));
  }
}

/// What lies behind the samples' numbers was taken for numbers.
TEST(Loader, RefusesAPartBeyondTheMiniBatch) {
  for (const SampleRange wrong : {SampleRange{0, 5}, {-1, 2}}) {
    Loader loader(synthetic(8), {.batch = 4, .part = [&](const std::string&, int64_t) { return wrong; }});
    expect_error<UsageError>([&] { loader.at(0); }, {"LoaderOptions::part", "0..3", join("got ", wrong.begin, "..", wrong.end - 1)});
  }
}

TEST(Loader, SeesEverySampleOnceAnEpochInAnOrderOfItsOwn) {
  const auto dataset = std::make_shared<Telltale>(20);
  Loader loader(dataset, {.batch = 3, .seed = 1, .threads = 2, .inputs = {{"sample"}}});
  EXPECT_EQ(loader.steps_per_epoch(), 6);
  std::vector<int64_t> orders[2];
  for (int64_t step = 0; step < 12; ++step) {
    const Tensor x = loader.at(step).load("sample", 0, 3);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(x.data<int64_t>()[2 * i + 1], step / 6);
      orders[step / 6].push_back(x.data<int64_t>()[2 * i]);
    }
  }
  EXPECT_NE(orders[0], orders[1]);
  for (const auto& order : orders) EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 18u);
}

TEST(Loader, LoadsOnlyTheInputsWantedUntilAnotherIsAskedFor) {
  const auto dataset = std::make_shared<Telltale>(20);
  Loader loader(dataset, {.batch = 4, .threads = 1, .inputs = {{"sample"}}});
  const Batch batch = loader.at(0);
  loader.at(1);
  EXPECT_EQ(dataset->unused_loads, 0);
  EXPECT_EQ(batch.load("unused", 1, 2).dim(0), 2);
  EXPECT_EQ(dataset->unused_loads, 1);
}

TEST(Loader, LoadsTheSamplesWantedUntilOthersAreAskedFor) {
  const auto dataset = std::make_shared<Telltale>(20);
  const auto part = [](const std::string&, int64_t samples) { return SampleRange{samples / 2, samples}; };
  const Tensor all = Loader(dataset, {.batch = 4, .threads = 0, .inputs = {{"sample"}}}).at(0).load("sample", 0, 4);
  Loader loader(dataset, {.batch = 4, .threads = 0, .inputs = {{"sample"}}, .part = part});
  const Batch batch = loader.at(0);
  const int before = dataset->loads;
  EXPECT_EQ(batch.load("sample", 2, 2).to_vector<int64_t>(), all.slice(0, 2, 4).to_vector<int64_t>());
  EXPECT_EQ(batch.load("sample", 3, 1).to_vector<int64_t>(), all.slice(0, 3, 4).to_vector<int64_t>());
  EXPECT_EQ(dataset->loads, before);
  EXPECT_EQ(batch.load("sample", 1, 2).to_vector<int64_t>(), all.slice(0, 1, 3).to_vector<int64_t>());
  EXPECT_EQ(dataset->loads, before + 1);
}

/// Before, a training saw the first rows of what it was given at every step.
TEST(Loader, RefusesOtherNumbersOfSamplesThanWereAskedFor) {
  struct Fixed : Telltale {
    explicit Fixed(Tensor all) : Telltale(20), given(std::move(all)) {}
    Tensor load(const std::string&, Split, int64_t, std::span<const int64_t>) const override { return given; }
    Tensor given;
  };
  for (const Tensor& given : {zeros({20, 2}), zeros({3, 2}), zeros({}), Tensor()}) {
    Loader loader(std::make_shared<Fixed>(given), {.batch = 4, .threads = 0});
    expect_error<UsageError>([&] { loader.at(0); }, {"load(\"sample\")", "asked for 4 samples"});
  }
  expect_error<UsageError>([] { ValidationLoader(nullptr, {.batch = 2}, 0); }, {"null pointer"});
}

TEST(Loader, LoadsNothingAheadWhereNoInputIsWanted) {
  const auto dataset = std::make_shared<Telltale>(20);
  const LoaderOptions none{.batch = 4, .threads = 0, .inputs = std::vector<std::string>()};
  Loader(dataset, none).at(0);
  ValidationLoader(dataset, none, 0).at(0);
  EXPECT_EQ(dataset->loads + dataset->unused_loads, 0);
}

TEST(Loader, LoadsNoFurtherAheadThanTold) {
  const auto dataset = std::make_shared<Telltale>(100);
  {
    Loader loader(dataset, {.batch = 1, .threads = 3, .ahead = 5, .inputs = {{"sample"}}});
    for (int64_t step = 0; step < 10; ++step) loader.at(step);
  }
  EXPECT_GE(dataset->loads, 10);
  EXPECT_LE(dataset->loads, 15);
}

TEST(Loader, ThrowsWhatAWorkerMetAndTriesAgainWhenAsked) {
  const auto dataset = std::make_shared<Telltale>(100);
  Loader loader(dataset, {.batch = 1, .threads = 2, .ahead = 0, .inputs = {{"sample"}}});
  loader.at(0);
  dataset->failing = true;
  expect_error<DataError>([&] { loader.at(1); }, {"the disk is gone"});
  dataset->failing = false;
  EXPECT_EQ(loader.at(1).samples, 1);
}

TEST(Loader, EndsWhileWorkersAreLoading) {
  for (int i = 0; i < 50; ++i) Loader(synthetic(1000), {.batch = 64, .threads = 4, .ahead = 8}).at(0);
}

TEST(Loader, LeavesABatchUsableAfterItsEnd) {
  Batch batch;
  { batch = Loader(synthetic(8), {.batch = 4}).at(0); }
  EXPECT_EQ(ids_of(batch, "tokens").size(), 12u);
  EXPECT_THROW(batch.load("tokens", 3, 2), UsageError);
  EXPECT_THROW(batch.load("image", 0, 1), UsageError);
}

TEST(Loader, RefusesBadOptions) {
  expect_error<DataError>([] { Loader(synthetic(3), {.batch = 4}); }, {"3 training samples", "batch of 4", "smaller batch"});
  EXPECT_THROW(Loader(synthetic(3), {.batch = 0}), UsageError);
  EXPECT_THROW(Loader(synthetic(3), {.threads = -1}), UsageError);
  EXPECT_THROW(Loader(synthetic(3), {}).at(-1), UsageError);
}

TEST(Validation, HasEverySampleOnceWithAnUnevenLastBatch) {
  ValidationLoader loader(synthetic(8), {.batch = 4}, 0);
  ASSERT_EQ(loader.size(), 3);
  EXPECT_EQ(loader.at(0).samples, 4);
  EXPECT_EQ(loader.at(2).samples, 2);
  EXPECT_EQ(ids_of(loader.at(2), "tokens").size(), 6u);
}

TEST(Validation, IsTheSameForAnyNumberOfThreads) {
  const auto dataset = synthetic(8);
  ValidationLoader plain(dataset, {.batch = 3, .threads = 0}, 0);
  for (int threads = 1; threads <= 4; ++threads) {
    ValidationLoader loader(dataset, {.batch = 3, .threads = threads}, 0);
    for (int64_t number = 0; number < plain.size(); ++number)
      for (const char* input : {"tokens", "targets"}) EXPECT_EQ(ids_of(loader.at(number), input), ids_of(plain.at(number), input));
  }
}

TEST(Validation, IsLoadedInWorkersAndNoFurtherThanItsEnd) {
  const auto dataset = std::make_shared<Telltale>(10);
  {
    ValidationLoader loader(dataset, {.batch = 3, .threads = 2, .ahead = 100, .inputs = {{"sample"}}}, 0);
    for (int64_t number = 0; number < loader.size(); ++number) {
      const Batch batch = loader.at(number);
      for (int64_t sample = 0; sample < batch.samples; ++sample)
        EXPECT_EQ(batch.load("sample", sample, 1).data<int64_t>()[0], number * 3 + sample);
    }
  }
  EXPECT_EQ(dataset->loads, 4) << "once a batch, whoever asks for samples of it";
}

TEST(Validation, SpreadsALimitedNumberOfSamplesEvenly) {
  EXPECT_EQ(validation_samples(*synthetic(8), 5), (std::vector<int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(validation_samples(*synthetic(8), 100).size(), 10u);
  EXPECT_THROW(ValidationLoader(synthetic(8), {.batch = 0}, 0), UsageError);
  expect_error<UsageError>([] { ValidationLoader(synthetic(8), {.batch = 4}, 0).at(3); }, {"a batch 0..2", "got 3"});
}

}  // namespace
}  // namespace sluice::data
