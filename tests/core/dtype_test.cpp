#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
