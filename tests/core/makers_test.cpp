#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops/copy.h"
#include "core/ops/ramp.h"
#include "core/ops/select.h"
#include "core/random.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

using Values = std::vector<double>;

TEST(Arange, CountsAsPythonsRangeDoes) {
  EXPECT_EQ(arange(0, 4).to_vector(), (Values{0, 1, 2, 3}));
  EXPECT_EQ(arange(1, 2, 0.25).to_vector(), (Values{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(arange(5, -1, -2, DType::i64).to_vector(), (Values{5, 3, 1}));
  EXPECT_EQ(arange(250, 256, 1, DType::u8).to_vector(), (Values{250, 251, 252, 253, 254, 255}));
  EXPECT_EQ(arange(3, 3).elements(), 0);
  EXPECT_EQ(arange(3, 0).elements(), 0);
  EXPECT_EQ(arange(0, 1, 0.1).elements(), 10);
}

TEST(Arange, RefusesNumbersThatTheDtypeDoesNotHold) {
  expect_error<UsageError>([] { arange(0, 3, 0); }, {"a step that is not 0"});
  expect_error<UsageError>([] { arange(0, 1e300); }, {"fewer than 2^62 numbers", "take a larger step"});
  expect_error<UsageError>([] { arange(0, 3, 0.5, DType::i32); }, {"needs a whole step for i32, got 0.5"});
  expect_error<UsageError>([] { arange(0.5, 3, 1, DType::i32); }, {"needs numbers that i32 holds, got 0.5"});
  expect_error<UsageError>([] { arange(0, 300, 1, DType::u8); }, {"needs numbers that u8 holds, got 299"});
}

TEST(Linspace, HasBothEndsExactly) {
  EXPECT_EQ(linspace(-1, 1, 5).to_vector(), (Values{-1, -0.5, 0, 0.5, 1}));
  const Values sevenths = linspace(0, 0.7, 8, DType::f64).to_vector();
  EXPECT_EQ(sevenths.front(), 0);
  EXPECT_EQ(sevenths.back(), 0.7);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(sevenths[i], 0.1 * i, 1e-15);
  EXPECT_EQ(linspace(3, 4, 1).to_vector(), (Values{3}));
  EXPECT_EQ(linspace(3, 4, 0).elements(), 0);
  expect_error<UsageError>([] { linspace(0, 1, -1); }, {"needs a count >= 0, got -1"});
  expect_error<UsageError>([] { linspace(0, 1, 2, DType::i32); }, {"arange makes integers"});
}

TEST(Linspace, RefusesEndsWithoutAStepBetweenThem) {
  constexpr double kFar = 1e308, kInfinity = std::numeric_limits<double>::infinity();
  expect_error<UsageError>([] { linspace(-kFar, kFar, 3, DType::f64); }, {"needs finite ends", "got -1e+308 and 1e+308"});
  for (const double end : {kInfinity, static_cast<double>(NAN)})
    expect_error<UsageError>([=] { linspace(0, end, 3); }, {"needs finite ends"});
}

TEST(Makers, FillLikeAnotherTensor) {
  const Tensor x = zeros({2, 3}, DType::f64).transpose(0, 1);
  for (const Tensor& y : {zeros_like(x), ones_like(x), full_like(x, 2.5)}) {
    EXPECT_EQ(y.shape(), (Shape{3, 2}));
    EXPECT_EQ(y.dtype(), DType::f64);
    EXPECT_TRUE(y.is_contiguous());
  }
  EXPECT_EQ(ones_like(x).to_vector(), Values(6, 1));
  EXPECT_EQ(full_like(x, 2.5).to_vector(), Values(6, 2.5));
  EXPECT_EQ(ones({2}, DType::u8).to_vector(), Values(2, 1));
}

TEST(Makers, GiveIdentitiesAndTriangles) {
  EXPECT_EQ(eye(2).to_vector(), (Values{1, 0, 0, 1}));
  EXPECT_EQ(eye(0).elements(), 0);
  EXPECT_EQ(triangle(2, 3).to_vector(), (Values{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(triangle(2, 2, -1).to_vector(), (Values{0, 0, 1, 0}));
  EXPECT_EQ(triangle(2, 2).dtype(), DType::u8);
}

TEST(Makers, DrawWhatTheFillsDraw) {
  Tensor normal = empty({3, 5}), uniform = empty({3, 5}, DType::f64);
  fill_normal(normal, 0, 1, 7);
  fill_uniform(uniform, 0, 1, 7);
  EXPECT_EQ(randn({3, 5}, 7).to_vector(), normal.to_vector());
  EXPECT_EQ(rand({3, 5}, 7, DType::f64).to_vector(), uniform.to_vector());
  EXPECT_NE(randn({3, 5}, 8).to_vector(), normal.to_vector());
}

TEST(Makers, CountTheSameBytesAndCostOnMeta) {
  const auto counted = [](const DevicePtr& device) {
    device->reset_peak();
    const Cost before = device->counted();
    const Tensor kept[] = {arange(0, 9, 1, DType::i64, device),
                           linspace(0, 1, 9, DType::f32, device),
                           eye(5, DType::f32, device),
                           rand({7}, 1, DType::f32, device),
                           randint(0, 9, {7}, 1, DType::i64, device),
                           randperm(7, 1, DType::i32, device),
                           triangle(4, 5, 1, device)};
    const Cost cost = device->counted() - before;
    return std::tuple(device->live_bytes(), device->peak_bytes(), cost.flops, cost.bytes_read, cost.bytes_written);
  };
  EXPECT_EQ(counted(make_device("cpu:0")), counted(make_device("meta:0")));
}

}  // namespace
}  // namespace sluice
