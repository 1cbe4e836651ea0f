// Moving averages over lists of tensors follow the formula, on every kind of device.
#include "core/ops/moving_average.h"

#include <cmath>

#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"
#include "tests/tolerance.h"

namespace sluice {
namespace {

constexpr double kDecay = 0.75;

void expect_the_formula(const DevicePtr& device) {
  const auto before = named_pairs<MovingAverage>(default_device()), pairs = named_pairs<MovingAverage>(device);
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
    const auto pairs = named_pairs<MovingAverage>(device), untouched = named_pairs<MovingAverage>(device);
    moving_average_step(pairs, kDecay, full({}, bad, DType::f64, device));
    for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(pairs[i].average.to_vector(), untouched[i].average.to_vector()) << "pair " << i;
  }
}

TEST(MovingAverage, MovesTowardsTheValueByOneMinusTheDecay) { expect_the_formula(default_device()); }

TEST(MovingAverage, StaysWhenTheNormIsNotFinite) { expect_nothing_changes_when_the_norm_is_not_finite(default_device()); }

TEST(MovingAverage, HasTheSameBitsForAnyNumberOfThreads) {
  const auto alone = named_pairs<MovingAverage>(default_device()),
             together = named_pairs<MovingAverage>(make_device("cpu:0", {.threads = 3}));
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
