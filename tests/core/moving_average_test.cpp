// Moving averages over lists of tensors follow the formula, on every kind of device.
#include "core/ops/moving_average.h"

#include <cmath>

#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"

namespace sluice {
namespace {

constexpr double kDecay = 0.75;

/// More than two launches take: empty ones, tails, several chunks, f64 among f32, some at addresses that allow no packs.
std::vector<MovingAverage> pairs_on(const DevicePtr& device) {
  std::vector<MovingAverage> pairs;
  for (int i = 0; i < 250; ++i) {
    const int64_t elements = i == 3 ? 20003 : i == 200 ? 8192 : i * 5 % 43, shift = i % 3 == 1 ? 1 : 0;
    const DType dtype = i % 7 == 6 ? DType::f64 : DType::f32;
    pairs.push_back({named_normal(join("average", i), elements, dtype, device, shift),
                     named_normal(join("value", i), elements, dtype, device, i % 5 == 4 ? 1 : shift)});
  }
  return pairs;
}

void expect_the_formula(const DevicePtr& device) {
  const auto before = pairs_on(default_device()), pairs = pairs_on(device);
  moving_average_step(pairs, kDecay, full({}, 4, DType::f64, device));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto past = before[i].average.to_vector(), value = before[i].value.to_vector(), got = pairs[i].average.to_vector();
    const double tolerance = testing::tolerance_of(pairs[i].average.dtype()).value;
    for (size_t j = 0; j < got.size(); ++j)
      ASSERT_NEAR(got[j], kDecay * past[j] + (1 - kDecay) * value[j], tolerance) << "pair " << i << ", element " << j;
    EXPECT_EQ(pairs[i].value.to_vector(), value) << "pair " << i;
  }
}

void expect_nothing_changes_when_the_norm_is_not_finite(const DevicePtr& device) {
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    const auto pairs = pairs_on(device), untouched = pairs_on(device);
    moving_average_step(pairs, kDecay, full({}, bad, DType::f64, device));
    for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(pairs[i].average.to_vector(), untouched[i].average.to_vector()) << "pair " << i;
  }
}

TEST(MovingAverage, MovesTowardsTheValueByOneMinusTheDecay) { expect_the_formula(default_device()); }

TEST(MovingAverage, StaysWhenTheNormIsNotFinite) { expect_nothing_changes_when_the_norm_is_not_finite(default_device()); }

TEST(MovingAverage, HasTheSameBitsForAnyNumberOfThreads) {
  const auto alone = pairs_on(default_device()), together = pairs_on(make_device("cpu:0", {.threads = 3}));
  moving_average_step(alone, 0.9999);
  moving_average_step(together, 0.9999);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].average.to_vector(), together[i].average.to_vector()) << "pair " << i;
}

TEST(MovingAverage, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({3});
  moving_average_step({}, kDecay);
  expect_error<UsageError>([&] { moving_average_step({{x, zeros({4})}}, kDecay); }, {"a value like its average", "[4]"});
  expect_error<UsageError>([&] { moving_average_step({{x, zeros({3}, DType::f64)}}, kDecay); }, {"a value like its average"});
  expect_error<UsageError>([&] { moving_average_step({{zeros({3}, DType::bf16), zeros({3}, DType::bf16)}}, kDecay); }, {"f32 or f64"});
  expect_error<UsageError>([&] { moving_average_step({{x, zeros({3})}}, 1.5); }, {"a decay in [0, 1]", "1.5"});
  expect_error<UsageError>([&] { moving_average_step({{x, zeros({3})}}, kDecay, zeros({1}, DType::f64)); }, {"sum of squares f64 []"});
}

using CudaMovingAverage = CudaTest;

TEST_F(CudaMovingAverage, MovesTowardsTheValueByOneMinusTheDecay) { expect_the_formula(make_device("cuda:0")); }

TEST_F(CudaMovingAverage, StaysWhenTheNormIsNotFinite) { expect_nothing_changes_when_the_norm_is_not_finite(make_device("cuda:0")); }

}  // namespace
}  // namespace sluice
