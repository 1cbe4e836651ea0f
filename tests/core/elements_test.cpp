#include "core/elements.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/expect_error.h"

namespace sluice {
namespace {

template <class T>
class Elements : public testing::Test {};
using Types = testing::Types<float, bfloat16, double, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(Elements, Types);

TYPED_TEST(Elements, KeepTheirTypeAndComeBackAsTheyWere) {
  const std::vector<TypeParam> elements{static_cast<TypeParam>(1.f), static_cast<TypeParam>(2.f), static_cast<TypeParam>(3.f),
                                        static_cast<TypeParam>(4.f), static_cast<TypeParam>(5.f), static_cast<TypeParam>(6.f)};
  const Tensor x = tensor(elements, {2, 3});
  EXPECT_EQ(x.dtype(), dtype_of<TypeParam>());
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  const auto back = x.transpose(0, 1).to_vector<TypeParam>();
  ASSERT_EQ(back.size(), 6u);
  EXPECT_EQ(static_cast<double>(back[1]), 4);
  EXPECT_EQ(static_cast<double>(x.select(0, 1).select(0, 2).template item<TypeParam>()), 6);
}

TEST(TensorFrom, SpansArraysAndVectorsHaveOneAxisWithoutAShape) {
  const std::array<float, 3> elements{1, 2, 3};
  EXPECT_EQ(tensor(elements).shape(), Shape({3}));
  EXPECT_EQ(tensor(std::span<const float>(elements).subspan(1)).to_vector(), (std::vector<double>{2, 3}));
  EXPECT_EQ(tensor(std::vector<int64_t>{}).shape(), Shape({0}));
  const double bare[] = {1, 2};
  EXPECT_EQ(tensor(bare).dtype(), DType::f64);
}

TEST(TensorFrom, ElementsAreCopied) {
  std::vector<float> elements{1, 2};
  const Tensor x = tensor(elements);
  elements[0] = 7;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(TensorFrom, IntegersAbove2To53AreExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(tensor(std::vector<int64_t>{large}).item<int64_t>(), large);
  EXPECT_EQ(tensor({large}, DType::i64).item<int64_t>(), large);
}

TEST(TensorFrom, BracesNestAsTheAxesDo) {
  EXPECT_EQ(tensor({1, 2, 3}).shape(), Shape({3}));
  const Tensor matrix = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.shape(), Shape({2, 3}));
  EXPECT_EQ(matrix.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({{{1}, {2}}}).shape(), Shape({1, 2, 1}));
  EXPECT_EQ(tensor({5}).shape(), Shape({1}));
  EXPECT_EQ(tensor(5).shape(), Shape());
  EXPECT_EQ(tensor({}).shape(), Shape({0}));
}

TEST(TensorFrom, NumbersAreI32WithoutAPointAndF32WithOne) {
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::i32);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1, 2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(tensor({1, 2}, DType::bf16).to_vector(), (std::vector<double>{1, 2}));
}

TEST(TensorFrom, AMetaDeviceOnlyCounts) {
  const DevicePtr device = make_device("meta:0");
  EXPECT_EQ(tensor({1, 2}, {}, device).shape(), Shape({2}));
  EXPECT_EQ(tensor(std::vector<float>{1}, device).device().kind(), DeviceKind::meta);
}

TEST(TensorFrom, WrongNumbersAreRefusedWithTheCure) {
  expect_error<UsageError>([] { tensor({{1, 2}, {3}}); }, {"braces of one shape", "[2]", "[1]"});
  expect_error<UsageError>([] { tensor({1, int64_t{1} << 40}); }, {"i32", "1099511627776", "DType::i64"});
  expect_error<UsageError>([] { tensor({1, 256}, DType::u8); }, {"u8", "256"});
  expect_error<UsageError>([] { tensor({1.5}, DType::i32); }, {"integers", "cast()"});
  expect_error<UsageError>([] { tensor(std::vector<float>{1, 2}, {3}); }, {"3 elements", "got 2"});
  expect_error<UsageError>([] { tensor({{{{{{{{{1}}}}}}}}}); }, {"8"});
}

TEST(ToVector, OfAnotherTypeNamesBothAndTheCure) {
  expect_error<UsageError>([] { tensor({1, 2}).to_vector<float>(); }, {"f32", "i32 [2]", "cast()"});
  expect_error<UsageError>([] { tensor({1, 2}).item<int32_t>(); }, {"exactly one element"});
}

}  // namespace
}  // namespace sluice
