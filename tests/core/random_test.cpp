#include "core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/distributions.h"
#include "core/ops/ramp.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, GivesThePublishedVectorsOfRandom123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DependsOnEveryField) {
  const RandomStream stream{.key = 7, .step = 1, .use = 2, .first_sample = 3};
  const Words base = stream.words(4, 5);
  EXPECT_NE(base, stream.words(5, 5));
  EXPECT_NE(base, stream.words(4, 6));
  EXPECT_NE(base, (RandomStream{8, 1, 2, 3}.words(4, 5)));
  EXPECT_NE(base, (RandomStream{7, 2, 2, 3}.words(4, 5)));
  EXPECT_NE(base, (RandomStream{7, 1, 3, 3}.words(4, 5)));
  EXPECT_NE(base, stream.words(uint64_t{4} + (uint64_t{1} << 32), 5));
}

TEST(RandomStream, CountsSamplesFromTheFirstOfTheMicroBatch) {
  const RandomStream whole{.key = 7, .first_sample = 0}, part{.key = 7, .first_sample = 3};
  EXPECT_EQ(part.words(9, 2), whole.words(9, 5));
}

TEST(RandomKey, DependsOnSeedAndName) {
  EXPECT_EQ(random_key(1, "a"), random_key(1, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(2, "a"));
  EXPECT_NE(random_key(1, "a"), random_key(1, "b"));
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(const Tensor& x) {
  Moments result;
  const auto values = x.to_vector();
  for (double value : values) result.mean += value / static_cast<double>(values.size());
  for (double value : values) result.deviation += (value - result.mean) * (value - result.mean) / static_cast<double>(values.size());
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(FillNormal, HasTheMeanAndDeviationAskedFor) {
  const Tensor x = empty({100003}, DType::f64);
  fill_normal(x, 3, 0.5, random_key(1, "normal"));
  EXPECT_NEAR(moments(x).mean, 3, 0.01);
  EXPECT_NEAR(moments(x).deviation, 0.5, 0.01);
}

TEST(FillUniform, StaysInItsRangeAndFillsIt) {
  const Tensor x = empty({100003}, DType::f64);
  fill_uniform(x, -1, 3, random_key(1, "uniform"));
  EXPECT_NEAR(moments(x).mean, 1, 0.02);
  EXPECT_NEAR(moments(x).deviation, 4 / std::sqrt(12.0), 0.02);
  for (double value : x.to_vector()) ASSERT_TRUE(value >= -1 && value < 3) << value;
}

TEST(FillUniform, StaysBelowItsEndWhereRoundingWouldReachIt) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    for (const auto& [low, high] : {std::pair(0.0, 1.0), std::pair(-2.0, -1.0), std::pair(-1.0, 0.0), std::pair(4096.0, 4096.01)}) {
      const Tensor x = empty({100003}, dtype);
      fill_uniform(x, low, high, 3);
      const auto values = x.to_vector();
      EXPECT_LT(std::ranges::max(values), high) << name_of(dtype) << " below " << high;
    }
  }
  EXPECT_EQ(rounded_below<float>(1 - 0x1p-32, 1), 1 - 0x1p-24f);
  EXPECT_EQ(rounded_below<float>(-0x1p-200, 0), -0x1p-149f);
  EXPECT_EQ(static_cast<float>(rounded_below<bfloat16>(-1 - 0x1p-20, -1)), -1 - 0x1p-7f);
  EXPECT_EQ(rounded_below<float>(0.75, 1), 0.75f);
}

TEST(FillNormal, DrawsTheSameNumbersWithAnyNumberOfThreads) {
  const Tensor one = empty({50001}, DType::f32, make_device("cpu:0", {.threads = 1}));
  const Tensor three = empty({50001}, DType::f32, make_device("cpu:0", {.threads = 3}));
  fill_normal(one, 0, 1, 9);
  fill_normal(three, 0, 1, 9);
  EXPECT_EQ(one.to_vector(), three.to_vector());
}

TEST(FillNormal, DrawsALargeTensorOnAllCoresWithTheNumbersOfASmallOne) {
  constexpr int kMoreThanCores = 64;  // of a device that then draws with its own
  const Tensor all_cores = empty({600001}, DType::f32, make_device("cpu:0", {.threads = 1}));
  const Tensor own_threads = empty({600001}, DType::f32, make_device("cpu:0", {.threads = kMoreThanCores}));
  const Tensor small = empty({1001}, DType::f32);
  for (const Tensor& x : {all_cores, own_threads, small}) fill_normal(x, 0, 1, 9);
  const auto drawn = all_cores.to_vector();
  EXPECT_EQ(drawn, own_threads.to_vector());
  EXPECT_EQ(std::vector(drawn.begin(), drawn.begin() + 1001), small.to_vector());
}

TEST(UpperProduct, IsWhatDoesNotFitIn64Bits) {
  EXPECT_EQ(upper_product(~uint64_t{0}, ~uint64_t{0}), ~uint64_t{1});
  EXPECT_EQ(upper_product(uint64_t{1} << 63, 6), 3u);
  EXPECT_EQ(upper_product(0x123456789abcdef0, 0xfedcba9876543210), 0x121fa00ad77d7422u);
  EXPECT_EQ(upper_product(~uint64_t{0}, 1), 0u);
}

TEST(RandInt, GivesEveryNumberOfItsRangeAboutAsOften) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const Tensor x = randint(3, 10, {70001}, 1, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    std::map<double, int> times;
    for (const double value : x.to_vector()) ++times[value];
    EXPECT_EQ(times.size(), 7u);
    for (const auto& [value, count] : times) {
      EXPECT_TRUE(value >= 3 && value <= 9) << value;
      EXPECT_NEAR(count, 10000, 400);
    }
  }
}

TEST(RandInt, IsAFunctionOfTheKeyAloneAndTheSameForEveryDtypeAndNumberOfThreads) {
  const auto drawn = randint(-100, 100, {50001}, 5).to_vector();
  EXPECT_EQ(randint(-100, 100, {50001}, 5, DType::i32, make_device("cpu:0", {.threads = 3})).to_vector(), drawn);
  EXPECT_NE(randint(-100, 100, {50001}, 6).to_vector(), drawn);
  EXPECT_EQ(randint(-100, 100, {3, 7}, 5).shape(), (Shape{3, 7}));
  const auto part = randint(-100, 100, {3, 7}, 5).to_vector();
  EXPECT_TRUE(std::equal(part.begin(), part.end(), drawn.begin()));
}

TEST(RandInt, TakesTheWholeRangeOfI64AndOneNumber) {
  const auto far = randint(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), {1000}, 2).to_vector<int64_t>();
  EXPECT_LT(std::ranges::min(far), std::numeric_limits<int64_t>::min() / 4 * 3);
  EXPECT_GT(std::ranges::max(far), std::numeric_limits<int64_t>::max() / 4 * 3);
  EXPECT_EQ(randint(255, 256, {3}, 2, DType::u8).to_vector(), (std::vector<double>{255, 255, 255}));
  EXPECT_EQ(randint(0, 5, {0}, 2).elements(), 0);
  expect_error<UsageError>([] { randint(3, 3, {2}, 1); }, {"randint: needs low < high, got 3 and 3"});
  expect_error<UsageError>([] { randint(0, 257, {2}, 1, DType::u8); }, {"needs numbers that u8 holds, got 0 to 256", "take i64"});
  expect_error<UsageError>([] { randint(0, 2, {2}, 1, DType::f32); }, {"needs i64, i32 or u8, got f32"});
}

TEST(RandPerm, HasEveryNumberOnceAndEachOrderAboutAsOften) {
  std::map<std::vector<double>, int> times;
  for (uint64_t key = 0; key < 6000; ++key) ++times[randperm(3, key).to_vector()];
  EXPECT_EQ(times.size(), 6u);
  for (const auto& [order, count] : times) EXPECT_NEAR(count, 1000, 150);
  auto large = randperm(1000, 7).to_vector();
  EXPECT_EQ(randperm(1000, 7, DType::i32).to_vector(), large);
  EXPECT_FALSE(std::ranges::is_sorted(large));
  std::ranges::sort(large);
  EXPECT_EQ(large, arange(0, 1000).to_vector());
  EXPECT_EQ(randperm(0, 1).elements(), 0);
  EXPECT_EQ(randperm(1, 1).to_vector(), std::vector<double>{0});
  expect_error<UsageError>([] { randperm(-1, 1); }, {"randperm: needs n >= 0, got -1"});
  expect_error<UsageError>([] { randperm(257, 1, DType::u8); }, {"needs numbers that u8 holds, got 0 to 256", "take i64"});
}

}  // namespace
}  // namespace sluice
