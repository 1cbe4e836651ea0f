#include "core/ops/lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sluice::kernels {
namespace {

/// Copies all of x to y by registers.
template <class T, class From, class To>
void copy_by_lanes(const std::vector<From>& x, std::vector<To>& y) {
  for_lanes<T>(0, static_cast<int64_t>(x.size()), [&](auto load, auto store) { store(y.data(), load(x.data())); });
}

TEST(Lanes, LoadEveryNumberOfBf16) {
  std::vector<bfloat16> halves(1 << 16);
  for (uint32_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> loaded(halves.size());
  copy_by_lanes<bfloat16>(halves, loaded);
  for (uint32_t i = 0; i < halves.size(); ++i) EXPECT_EQ(std::bit_cast<uint32_t>(loaded[i]), i << 16) << i;
}

// Every high half with low ones around a half of the last bit: ties, both directions, denormals, infinity, NaN.
TEST(Lanes, RoundToBf16AsOneNumberDoes) {
  for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    std::vector<float> values(1 << 16);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = std::bit_cast<float>(i << 16 | low);
    std::vector<bfloat16> stored(values.size());
    copy_by_lanes<bfloat16>(values, stored);
    for (uint32_t i = 0; i < values.size(); ++i) EXPECT_EQ(stored[i].bits, bfloat16(values[i]).bits) << i << ' ' << low;
  }
}

// Of numbers of every size and sign, infinity and NaN: to a relative 2^-23, and 0 stands for what has no normal number.
TEST(Lanes, ExponentialsAreExact) {
  constexpr uint32_t kStep = 4099;
  constexpr double kBound = std::numeric_limits<float>::epsilon(), kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max() * (1 - kBound);
  std::vector<float> x, y;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kStep) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float value = -90; value < 90; value += 0.00037f) x.push_back(value);
  for (const float value : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.72283f, 88.72284f, -87.33654f, -87.33655f}) x.push_back(value);
  y.resize(x.size());
  for_lanes<float>(0, static_cast<int64_t>(x.size()), [&](auto load, auto store) { store(y.data(), exp(load(x.data()))); });
  for (size_t i = 0; i < x.size(); ++i) {
    const double right = std::exp(static_cast<double>(x[i]));
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(y[i]));
    else if (right > kMost)
      ASSERT_GE(y[i], kMost) << x[i];
    else if (right < kLeast)
      ASSERT_EQ(y[i], 0) << x[i];
    else
      ASSERT_NEAR(y[i], right, kBound * right) << x[i];
  }
}

TEST(Lanes, KeepBytes) {
  std::vector<uint8_t> bytes(256), stored(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  std::vector<float> loaded(bytes.size());
  copy_by_lanes<float>(bytes, loaded);
  copy_by_lanes<float>(loaded, stored);
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(loaded[i], static_cast<float>(i));
  EXPECT_EQ(stored, bytes);
}

template <class T, class S>
void expect_sums_where_bytes_are_equal() {
  constexpr int kRegisters = 4;
  constexpr int64_t kCount = kRegisters * Lanes<T>::kCount;
  std::vector<uint8_t> bytes(kCount);
  std::vector<S> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    bytes[i] = static_cast<uint8_t>(i * 7 % 3 == 1 ? 200 : i % 5);
    x[i] = static_cast<S>(bytes[i] == 200 ? static_cast<float>(i) / 8 - 3 : NAN);
  }
  Lanes<T> sums[kRegisters];
  for_registers<kRegisters>([&](auto r) { sums[r] = Lanes<T>(r + 1); });
  add_where_equal(bytes.data(), uint8_t{200}, x.data(), sums);
  std::vector<T> got(kCount);
  for_registers<kRegisters>([&](auto r) { sums[r].store(got.data() + r * Lanes<T>::kCount); });
  for (int64_t i = 0; i < kCount; ++i) {
    const T before = static_cast<T>(i / Lanes<T>::kCount + 1);
    EXPECT_EQ(got[i], bytes[i] == 200 ? before + static_cast<T>(x[i]) : before) << i;
  }
}

// What lies at other bytes takes no part, whatever it is.
TEST(Lanes, AddWhereBytesAreEqual) {
  expect_sums_where_bytes_are_equal<float, float>();
  expect_sums_where_bytes_are_equal<float, bfloat16>();
  expect_sums_where_bytes_are_equal<double, double>();
}

// Blocks of several registers, single registers and a tail: each element once, and nothing beyond.
TEST(Lanes, BlocksCoverAllElementsOnce) {
  constexpr int64_t kMost = 200;
  for (int64_t count = 0; count < kMost; ++count) {
    std::vector<float> x(kMost), y(kMost, -1);
    for (int64_t i = 0; i < kMost; ++i) x[i] = static_cast<float>(i);
    for_lane_blocks<float, 4>(0, count, [&](auto registers, auto load, auto store) {
      for (int r = 0; r < registers; ++r) {
        const int64_t at = r * Lanes<float>::kCount;
        store(y.data() + at, load(x.data() + at));
      }
    });
    for (int64_t i = 0; i < kMost; ++i) EXPECT_EQ(y[i], i < count ? x[i] : -1) << i << " of " << count;
  }
}

}  // namespace
}  // namespace sluice::kernels
