#include "data/map_dataset.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <set>
#include <system_error>

#include "core/ops/elementwise.h"
#include "core/ops/flip.h"
#include "core/ops/operators.h"
#include "core/ops/ramp.h"
#include "core/random.h"
#include "data/loader.h"
#include "data/tensor_dataset.h"
#include "tests/expect_error.h"

namespace sluice::data {
namespace {

std::shared_ptr<const Dataset> numbers(int64_t samples) {
  const Tensor x = arange(0, 2.0 * static_cast<double>(samples)).reshape({samples, 2});
  return std::make_shared<TensorDataset>(TensorDataset::Inputs{{"x", x}, {"y", x}}, TensorDataset::Inputs{{"x", x}, {"y", x}});
}

std::vector<double> loaded(const Dataset& set, const char* input, Split split, int64_t epoch, const std::vector<int64_t>& samples) {
  return set.load(input, split, epoch, samples).to_vector();
}

TEST(MapDataset, MakesInputsOfOthersSampleBySample) {
  const MapDataset set(numbers(4), {{"x", {"x", [](const Tensor& x, const SampleView&) { return x * 10; }}},
                                    {"sum", {"y", [](const Tensor& y, const SampleView&) { return y[0] + y[1]; }}}});
  EXPECT_EQ(set.inputs(), (std::vector<std::string>{"x", "y", "sum"}));
  EXPECT_EQ(set.size(Split::train), 4);
  EXPECT_EQ(loaded(set, "x", Split::train, 0, {2, 0}), (std::vector<double>{40, 50, 0, 10}));
  EXPECT_EQ(loaded(set, "y", Split::train, 0, {2, 0}), (std::vector<double>{4, 5, 0, 1})) << "as the source has it";
  EXPECT_EQ(loaded(set, "sum", Split::validation, 0, {3, 1}), (std::vector<double>{13, 5}));
}

/// A number of the view itself in the place of each value.
MapDataset keyed(uint64_t seed) {
  const auto number = [](const Tensor&, const SampleView& view) { return rand({}, view.key); };
  return {numbers(8), std::map<std::string, SampleFunction>{{"x", number}, {"y", number}}, seed};
}

TEST(MapDataset, DrawsByTheKeyOfASampleWhoeverAsksAndInAnyOrder) {
  const MapDataset set = keyed(1);
  const auto all = loaded(set, "x", Split::train, 2, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(std::set<double>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(loaded(set, "x", Split::train, 2, {5}), std::vector<double>{all[5]});
  EXPECT_EQ(loaded(set, "y", Split::train, 2, {5}), std::vector<double>{all[5]}) << "all inputs of a sample have one key";
  EXPECT_NE(loaded(set, "x", Split::train, 3, {5}), std::vector<double>{all[5]});
  EXPECT_NE(loaded(keyed(2), "x", Split::train, 2, {5}), std::vector<double>{all[5]});
  EXPECT_NE(loaded(set, "x", Split::validation, 2, {5}), std::vector<double>{all[5]});
  EXPECT_EQ(loaded(set, "x", Split::validation, 2, {5}), loaded(set, "x", Split::validation, 0, {5})) << "always the same look";
}

TEST(MapDataset, IsOneAnswerForAnyNumberOfThreads) {
  const auto flipped = std::make_shared<MapDataset>(
      numbers(8), std::map<std::string, SampleFunction>{
                      {"x", [](const Tensor& x, const SampleView& view) { return rand({}, view.key).item() < 0.5 ? flip(x, {0}) : x; }}});
  Loader plain(flipped, {.batch = 4, .seed = 3, .threads = 0}), threads(flipped, {.batch = 4, .seed = 3, .threads = 3});
  int flips = 0, samples = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const auto x = threads.at(step).load("x", 0, 4).to_vector();
    EXPECT_EQ(x, plain.at(step).load("x", 0, 4).to_vector());
    for (size_t i = 0; i < x.size(); i += 2, ++samples) flips += x[i] > x[i + 1];
  }
  EXPECT_GT(flips, samples / 4);
  EXPECT_LT(flips, 3 * samples / 4);
}

TEST(MapDataset, ErrorsNameInputAndSample) {
  const auto same = [](const Tensor& x, const SampleView&) { return x; };
  expect_error<UsageError>([&] { MapDataset(numbers(2), {{"x", {"xx", same}}}); }, {"map dataset", "'x'", "'xx'", "did you mean"});
  expect_error<UsageError>([&] { MapDataset(numbers(2), {{"x", {"x", nullptr}}}); }, {"a function", "'x'"});
  const MapDataset uneven(numbers(3),
                          {{"x", {"x", [](const Tensor& x, const SampleView& view) { return zeros({1 + view.sample}, x.dtype()); }}}});
  expect_error<UsageError>([&] { loaded(uneven, "x", Split::train, 0, {0, 2}); }, {"'x'", "one shape", "sample 2", "[1]", "[3]"});
  const MapDataset failing(numbers(3), {{"x", {"x", [](const Tensor&, const SampleView& view) -> Tensor {
                                                 if (view.sample == 1) throw DataError("the file is gone");
                                                 if (view.sample == 0) throw ResourceError("the disk is full");
                                                 throw std::runtime_error("a bug");
                                               }}}});
  expect_error<DataError>([&] { loaded(failing, "x", Split::train, 0, {1}); }, {"'x' of sample 1 of the training split", "file is gone"});
  expect_error<ResourceError>([&] { loaded(failing, "x", Split::train, 0, {0}); }, {"'x' of sample 0 of the training split", "is full"});
  expect_error<UsageError>([&] { loaded(failing, "x", Split::validation, 0, {2}); }, {"sample 2 of the validation split", "a bug"});
}

/// A machine without memory was told as a mistake in the user's function.
TEST(MapDataset, TellsWhatTheSystemRefusesAsThat) {
  const MapDataset refused(numbers(2), {{"x", {"x", [](const Tensor&, const SampleView& view) -> Tensor {
                                                 if (view.sample == 0) throw std::bad_alloc();
                                                 throw std::system_error(ENOSPC, std::generic_category(), "a table");
                                               }}}});
  expect_error<ResourceError>([&] { loaded(refused, "x", Split::train, 0, {0}); }, {"'x' of sample 0", "no memory left"});
  expect_error<ResourceError>([&] { loaded(refused, "x", Split::train, 0, {1}); }, {"'x' of sample 1", "a table: No space left"});
}

}  // namespace
}  // namespace sluice::data
