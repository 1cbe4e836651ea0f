#include "data/tensor_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/ops/copy.h"
#include "core/ops/ramp.h"
#include "data/loader.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

using Inputs = TensorDataset::Inputs;

Inputs numbers(int64_t samples, double first) {
  return {{"x", arange(first, first + 2.0 * static_cast<double>(samples)).reshape({samples, 2})},
          {"label", cast(arange(0, static_cast<double>(samples)), DType::i32)}};
}

TEST(TensorDataset, GivesRowsOfEachSplitByTheirNumbersInAnyDtype) {
  const TensorDataset set(numbers(4, 0), numbers(2, 100));
  EXPECT_EQ(set.inputs(), (std::vector<std::string>{"label", "x"}));
  EXPECT_EQ(set.size(Split::train), 4);
  EXPECT_EQ(set.size(Split::validation), 2);
  const std::vector<int64_t> some{3, 0, 3};
  const Tensor x = set.load("x", Split::train, 7, some), label = set.load("label", Split::train, 0, some);
  EXPECT_EQ(x.shape(), Shape({3, 2}));
  EXPECT_EQ(x.to_vector(), (std::vector<double>{6, 7, 0, 1, 6, 7}));
  EXPECT_EQ(label.dtype(), DType::i32);
  EXPECT_EQ(label.to_vector(), (std::vector<double>{3, 0, 3}));
  EXPECT_EQ(set.load("x", Split::validation, 0, std::vector<int64_t>{1}).to_vector(), (std::vector<double>{102, 103}));
}

TEST(TensorDataset, TakesViewsThatAreNotContiguous) {
  const Tensor wide = arange(0, 12).reshape({3, 4});
  const TensorDataset set({{"x", wide.slice(1, 1, 3)}});
  EXPECT_EQ(set.load("x", Split::train, 0, std::vector<int64_t>{2, 0}).to_vector(), (std::vector<double>{9, 10, 1, 2}));
  EXPECT_EQ(set.size(Split::validation), 0);
}

TEST(TensorDataset, IsLoadedInBatches) {
  Loader loader(std::make_shared<TensorDataset>(numbers(6, 0)), {.batch = 3, .seed = 1});
  std::vector<double> seen;
  for (const int64_t step : {0, 1}) {
    const Batch batch = loader.at(step);
    const auto x = batch.load("x", 0, 3).to_vector(), label = batch.load("label", 0, 3).to_vector();
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(x[2 * i], 2 * label[i]) << "inputs belong together";
    seen.insert(seen.end(), label.begin(), label.end());
  }
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST(TensorDataset, ErrorsNameTheInputAndWhatDoesNotFit) {
  const auto made = [](const Inputs& train, const Inputs& validation = {}) { return TensorDataset(train, validation); };
  expect_error<UsageError>([&] { made({}); }, {"tensor dataset", "at least one input"});
  expect_error<UsageError>([&] { made({{"x", zeros({3})}, {"y", zeros({4})}}); }, {"'y'", "3", "4"});
  expect_error<UsageError>([&] { made({{"x", zeros({})}}); }, {"axis 0", "'x'"});
  expect_error<UsageError>([&] { made({{"x", zeros({3, 2})}}, {{"x", zeros({3, 4})}}); }, {"validation", "'x'", "[3, 2]", "[3, 4]"});
  expect_error<UsageError>([&] { made({{"x", zeros({3})}}, {{"x", zeros({3}, DType::i32)}}); }, {"validation", "'x'", "i32"});
  expect_error<UsageError>([&] { made({{"x", zeros({3})}}, {{"z", zeros({3})}}); }, {"validation", "'z'"});
  expect_error<UsageError>([&] { made({{"x", zeros({3})}, {"y", zeros({3})}}, {{"x", zeros({3})}}); }, {"'y'", "validation"});
  const TensorDataset set({{"x", zeros({3})}});
  expect_error<UsageError>([&] { set.load("y", Split::train, 0, std::vector<int64_t>{0}); }, {"'y'", "has x"});
  expect_error<UsageError>([&] { set.load("x", Split::validation, 0, std::vector<int64_t>{0}); }, {"'x'", "none in this split"});
  expect_error<UsageError>([&] { set.load("x", Split::train, 0, std::vector<int64_t>{3}); }, {"0 to 2", "got 3"});
}

}  // namespace
}  // namespace sluice::data
