// A sampler that gave a mini-batch no samples was told of micro-batches: "needs a number from 1 to the 0 samples of the mini-batch".
#include <gtest/gtest.h>

#include "data/loader.h"
#include "data/tensor_dataset.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

class SecondIsEmpty : public BatchSampler {
 public:
  int64_t batches_per_epoch() const override { return 3; }
  std::vector<int64_t> samples(int64_t, int64_t number) const override {
    return number == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{0};
  }
};

TEST(MiniBatchesWithoutSamples, AreRefusedWithTheSamplersWords) {
  const TensorDataset::Inputs inputs{{"x", zeros({8, 2})}};
  const auto dataset = std::make_shared<TensorDataset>(inputs, inputs);
  const auto sampler = std::make_shared<SecondIsEmpty>();
  for (const int threads : {0, 2}) {
    Loader loader(dataset, sampler, {.threads = threads});
    EXPECT_EQ(loader.at(0).samples, 1);
    expect_error<UsageError>([&] { loader.at(4); },
                             {"needs a sampler", "at least one sample", "mini-batch 1 of epoch 1", "batches_per_epoch"});
    ValidationLoader validation(dataset, sampler, {.threads = threads});
    expect_error<UsageError>([&] { validation.at(1); }, {"needs a sampler", "mini-batch 1 of epoch 0"});
  }
}

}  // namespace
}  // namespace sluice::data
