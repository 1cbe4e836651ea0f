#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/elements.h"
#include "core/ops/copy.h"
#include "core/ops/ramp.h"
#include "core/tensor.h"

namespace sluice {
namespace {

TEST(BFloat16, RoundsToNearestEven) {
  const float step = 0x1p-7f;  // between neighbours in [1, 2)
  EXPECT_EQ(float(bfloat16(1 + 0.49f * step)), 1);
  EXPECT_EQ(float(bfloat16(1 + 0.51f * step)), 1 + step);
  EXPECT_EQ(float(bfloat16(1 + 0.5f * step)), 1) << "a tie goes to the even neighbour below";
  EXPECT_EQ(float(bfloat16(1 + 1.5f * step)), 1 + 2 * step) << "a tie goes to the even neighbour above";
  EXPECT_EQ(float(bfloat16(-1 - 1.5f * step)), -1 - 2 * step);
}

TEST(BFloat16, KeepsWhatF32HasBesideNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float(bfloat16(infinity)), infinity);
  EXPECT_EQ(float(bfloat16(-infinity)), -infinity);
  EXPECT_TRUE(std::isnan(float(bfloat16(NAN))));
  EXPECT_TRUE(std::isnan(float(bfloat16(std::bit_cast<float>(0x7f800001u))))) << "a NaN whose upper half would be infinity";
  EXPECT_TRUE(std::signbit(float(bfloat16(-0.0f))));
  EXPECT_EQ(float(bfloat16(std::numeric_limits<float>::max())), infinity);
}

TEST(BFloat16, SurvivesTheWayThroughF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 value;
    value.bits = static_cast<uint16_t>(bits);
    if (std::isnan(float(value))) continue;
    ASSERT_EQ(bfloat16(float(value)).bits, bits);
  }
}

/// Of two neighbours in bf16 and a number between them that is above their middle by less than f32 or f64 can say beside it.
TEST(BFloat16, RoundsANumberOfAWiderTypeOnce) {
  for (const double sign : {1.0, -1.0}) {
    EXPECT_EQ(double(bfloat16(sign * (1 + 0x1p-8 + 0x1p-40))), sign * (1 + 0x1p-7)) << "f32 would hold the tie, which goes to 1";
    EXPECT_EQ(double(bfloat16(sign * (1 + 0x3p-8 - 0x1p-40))), sign * (1 + 0x1p-7)) << "f32 would hold the tie, which goes up";
    EXPECT_EQ(double(bfloat16(sign * (1 + 0x1p-8))), sign) << "a tie goes to the even neighbour";
    EXPECT_EQ(double(bfloat16(sign * 0x1p-1074)), 0);
    EXPECT_EQ(std::signbit(double(bfloat16(sign * 0x1p-1074))), sign < 0);
    EXPECT_EQ(double(bfloat16(sign * (0x1p-134 + 0x1p-170))), sign * 0x1p-133) << "the smallest number above 0";
    EXPECT_EQ(double(bfloat16(sign * 1e300)), sign * std::numeric_limits<double>::infinity());
    EXPECT_EQ(double(bfloat16(sign * (0x1.ffp127 - 0x1p80))), sign * 0x1.fep127) << "just below the middle of the largest number and 2^128";
  }
  EXPECT_TRUE(std::isnan(double(bfloat16(std::numeric_limits<double>::quiet_NaN()))));
  EXPECT_EQ(double(bfloat16(-std::numeric_limits<double>::infinity())), -std::numeric_limits<double>::infinity());
  constexpr int64_t kLarge = int64_t{1} << 62, kStep = int64_t{1} << 55;
  for (const int64_t sign : {1, -1}) {
    EXPECT_EQ(double(bfloat16(sign * (kLarge + kStep / 2 + 1))), double(sign * (kLarge + kStep))) << "f64 would hold the tie";
    EXPECT_EQ(double(bfloat16(sign * (kLarge + kStep / 2))), double(sign * kLarge));
    EXPECT_EQ(double(bfloat16(sign * (kLarge + 3 * (kStep / 2) - 1))), double(sign * (kLarge + kStep)));
    EXPECT_EQ(double(bfloat16(sign * ((1 << 30) + (1 << 22) + 1))), double(sign * ((1 << 30) + (1 << 23)))) << "f32 would hold the tie";
  }
  EXPECT_EQ(double(bfloat16(std::numeric_limits<int64_t>::max())), 0x1p63);
  EXPECT_EQ(double(bfloat16(std::numeric_limits<int64_t>::min())), -0x1p63);
}

TEST(DType, TensorsOfBf16AreRoundedOnceFromF64AndI64) {
  const double above_a_tie = 1 + 0x1p-8 + 0x1p-40, above = 1 + 0x1p-7;
  const std::vector<double> rounded{above};
  EXPECT_EQ(cast(full({1}, above_a_tie, DType::f64), DType::bf16).to_vector(), rounded);
  EXPECT_EQ(full({1}, above_a_tie, DType::bf16).to_vector(), rounded);
  EXPECT_EQ(tensor_of({above_a_tie}, {1}, DType::bf16).to_vector(), rounded);
  EXPECT_EQ(arange(above_a_tie, 2, 1, DType::bf16).to_vector(), rounded);
  const Tensor whole = tensor(std::vector<int64_t>{(int64_t{1} << 62) + (int64_t{1} << 54) + 1});
  EXPECT_EQ(cast(whole, DType::bf16).to_vector(), std::vector<double>{0x1p62 + 0x1p55});
  const Tensor near_a_tie_of_f32 = tensor(std::vector<int64_t>{(int64_t{1} << 60) + (int64_t{1} << 36) + 1});
  EXPECT_EQ(cast(near_a_tie_of_f32, DType::f32).to_vector(), std::vector<double>{0x1p60 + 0x1p37});
}

TEST(DType, IsFoundByItsName) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
  EXPECT_THROW(dtype_named("f16"), UsageError);
}

TEST(DType, RefusesIndicesWhereFloatsAreNeeded) {
  try {
    on_float(DType::i32, "softmax", []<class T>() {});
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "softmax: needs a floating dtype (f32, bf16, f64), got i32");
  }
}

}  // namespace
}  // namespace sluice
