// A sampler without mini-batches divided by zero, and one that was not there was read.
#include <gtest/gtest.h>

#include "data/batch_sampler.h"
#include "data/loader.h"
#include "data/tensor_dataset.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

std::shared_ptr<TensorDataset> eight_samples() {
  const TensorDataset::Inputs inputs{{"x", zeros({8, 2})}};
  return std::make_shared<TensorDataset>(inputs, inputs);
}

class Negative : public BatchSampler {
 public:
  int64_t batches_per_epoch() const override { return -1; }
  std::vector<int64_t> samples(int64_t, int64_t) const override { return {0}; }
};

TEST(SamplersWithoutBatches, AreRefusedForTraining) {
  const auto dataset = eight_samples();
  const auto none = std::make_shared<SequentialSampler>(*dataset, Split::train, std::vector<int64_t>{}, [](int64_t) { return 4; });
  expect_error<UsageError>([&] { Loader(dataset, none, {}); }, {"at least 1 mini-batches an epoch, got 0", "give it samples"});
  expect_error<UsageError>([&] { Loader(dataset, std::make_shared<Negative>(), {}); }, {"got -1"});
  expect_error<UsageError>([&] { Loader(dataset, nullptr, {}); }, {"needs a sampler, got a null pointer"});
}

TEST(SamplersWithoutBatches, GiveAnEmptyValidation) {
  const auto dataset = eight_samples();
  const auto none = std::make_shared<SequentialSampler>(*dataset, Split::validation, std::vector<int64_t>{}, [](int64_t) { return 4; });
  EXPECT_EQ(ValidationLoader(dataset, none, {}).size(), 0);
  expect_error<UsageError>([&] { ValidationLoader(dataset, std::make_shared<Negative>(), {}); }, {"got -1"});
  expect_error<UsageError>([&] { ValidationLoader(dataset, nullptr, {}); }, {"needs a sampler, got a null pointer"});
}

}  // namespace
}  // namespace sluice::data
