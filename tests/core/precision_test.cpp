#include "core/precision.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace sluice {
namespace {

TEST(Precision, HasANameThatNamesIt) {
  for (Precision precision : {Precision::f32, Precision::tf32, Precision::bf16}) EXPECT_EQ(precision_named(name_of(precision)), precision);
  expect_error<UsageError>([] { precision_named("f16"); }, {"f32, tf32, bf16", "'f16'"});
}

TEST(Precision, OfBf16RoundsWhatIsFloatingAlone) {
  EXPECT_EQ(in_working_dtype(zeros({2}), Precision::bf16).dtype(), DType::bf16);
  EXPECT_EQ(in_working_dtype(zeros({2}), Precision::tf32).dtype(), DType::f32);
  EXPECT_EQ(in_working_dtype(zeros({2}, DType::i32), Precision::bf16).dtype(), DType::i32);
}

}  // namespace
}  // namespace sluice
