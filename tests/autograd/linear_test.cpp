// What lengths of samples change in a linear layer: no work on padding, where products are large enough to gain by it.
#include "autograd/ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "core/cpu/amx.h"
#include "core/ops/comparison.h"
#include "core/ops/copy.h"
#include "core/ops/matmul.h"
#include "core/ops/padding.h"
#include "core/ops/ramp.h"
#include "core/ops/select.h"
#include "core/random.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

// Large enough to be packed: 4 samples of 256 tokens.
constexpr int64_t kSamples = 4, kTokens = 256, kIn = 384, kOut = 384;

Tensor normal(const Shape& shape, const char* name, DType dtype = DType::f32) {
  const Tensor x = empty(shape, DType::f32);
  fill_normal(x, 0, 1, random_key(1, name));
  return cast(x, dtype);
}
const std::vector<int64_t> kSomeLengths{256, 0, 1, 131};
Tensor as_lengths(const std::vector<int64_t>& lengths) { return tensor_of({lengths.begin(), lengths.end()}, {kSamples}, DType::i32); }
Tensor some_lengths() { return as_lengths(kSomeLengths); }

/// The tokens of `rows`, of some lengths, in their order as samples of other lengths that are as many, with NaN for padding.
Tensor moved(const Tensor& rows, const std::vector<int64_t>& to) {
  const std::vector<double> x = rows.to_vector();
  const auto places = [](const std::vector<int64_t>& lengths) {
    std::vector<int64_t> all;
    for (size_t sample = 0; sample < lengths.size(); ++sample)
      for (int64_t i = 0; i < lengths[sample]; ++i) all.push_back(static_cast<int64_t>(sample) * kTokens + i);
    return all;
  };
  const std::vector<int64_t> here = places(kSomeLengths), there = places(to);
  std::vector<double> y(x.size(), std::nan(""));
  for (size_t i = 0; i < here.size(); ++i) std::copy_n(x.begin() + here[i] * rows.dim(1), rows.dim(1), y.begin() + there[i] * rows.dim(1));
  return tensor_of(y, rows.shape(), rows.dtype());
}

// A row has the bits that it has in whole samples, and a sum those of its tokens in their order, wherever padding lies.
TEST(LinearLengths, LeavePaddingOutOfLargeProducts) {
  ASSERT_TRUE(skips_padding(*default_device(), DType::f32, kSamples * kTokens, kOut, kIn));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (!skips_padding(*default_device(), dtype, kSamples * kTokens, kOut, kIn)) continue;
    const Tensor x = normal({kSamples, kTokens, kIn}, "x", dtype), weight = normal({kOut, kIn}, "weight", dtype),
                 bias = normal({kOut}, "bias", dtype);
    const Tensor lengths = some_lengths(), all_tokens = full({kSamples}, kTokens, DType::i32), whole = linear(x, weight, bias, all_tokens);
    const Tensor is_token = less(arange(0, kTokens, 1, DType::i32), lengths.reshape({kSamples, 1})).reshape({kSamples, kTokens, 1});
    EXPECT_EQ(linear(where(is_token, x, std::nan("")), weight, bias, lengths).to_vector(), without_padding(whole, lengths).to_vector());
    const Tensor dy = normal({kSamples * kTokens, kOut}, "dy", dtype), rows = x.reshape({kSamples * kTokens, kIn});
    const auto sum_of_tokens = [&](const std::vector<int64_t>& of) {
      const Tensor dw = empty({kOut, kIn}, DType::f32);
      matmul_without_padding(moved(dy, of), moved(rows, of), dw, true, false, as_lengths(of));
      return dw.to_vector();
    };
    const std::vector<double> sum = sum_of_tokens(kSomeLengths);
    EXPECT_EQ(sum, sum_of_tokens({100, 33, 255, 0}));
    const Tensor zeros_for_padding = without_padding(dy.reshape({kSamples, kTokens, kOut}), lengths).reshape(dy.shape()),
                 with_zeros = empty({kOut, kIn}, DType::f32);
    matmul_without_padding(zeros_for_padding, rows, with_zeros, true, false, all_tokens);
    const std::vector<double> expected = with_zeros.to_vector();
    // Tiles add 32 terms at once: zeros among them give other last bits.
    if (!has_amx()) {
      EXPECT_EQ(sum, expected);
    }
    for (size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], expected[i], 1e-3) << "element " << i;
  }
}

/// In f32 padding is skipped, in f64 it is masked.
TEST(LinearLengths, GiveTheGradientsOfMaskedProducts) {
  const auto of = [](DType dtype) {
    const std::vector<Var> inputs{Var::input(normal({kSamples, kTokens, kIn}, "x", dtype)),
                                  Var::input(normal({kOut, kIn}, "weight", dtype)), Var::input(normal({kOut}, "bias", dtype))};
    const Var y = linear(inputs[0], inputs[1], inputs[2], some_lengths());
    return gradients(y, normal(y.shape(), "dy", dtype), inputs);
  };
  const auto single = of(DType::f32), exact = of(DType::f64);
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto got = single[i].to_vector(), expected = exact[i].to_vector();
    for (size_t j = 0; j < expected.size(); ++j) ASSERT_NEAR(got[j], expected[j], 1e-3) << "input " << i << ", element " << j;
  }
}

TEST(LinearLengths, KeepNaNsInPaddingFromGradients) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor whole = normal({kSamples, kTokens, kIn}, "x", dtype), weight = normal({kOut, kIn}, "weight", dtype);
    const Tensor dy = normal({kSamples, kTokens, kOut}, "dy", dtype),
                 is_item = less(arange(0, kTokens, 1, DType::i32), some_lengths().reshape({kSamples, 1}));
    const auto with_nan = [&](const Tensor& x) { return where(is_item.reshape({kSamples, kTokens, 1}), x, std::nan("")); };
    const auto of = [&](const Tensor& x, const Tensor& given) {
      const std::vector<Var> inputs{Var::input(x), Var::input(weight)};
      return gradients(linear(inputs[0], inputs[1], {}, some_lengths()), given, inputs);
    };
    const auto expected = of(whole, dy), found = of(with_nan(whole), with_nan(dy));
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].to_vector(), expected[i].to_vector()) << "input " << i;
  }
}

TEST(LinearLengths, LeavePaddingOutOfSumsOfRows) {
  const Tensor dy = normal({kSamples, kTokens, kOut}, "dy"),
               is_item = less(arange(0, kTokens, 1, DType::i32), some_lengths().reshape({kSamples, 1}));
  const Tensor with_nan = where(is_item.reshape({kSamples, kTokens, 1}), dy, std::nan(""));
  EXPECT_EQ(sum_rows(with_nan, some_lengths()).to_vector(), sum_rows(without_padding(dy, some_lengths())).to_vector());
  expect_error<UsageError>(
      [&] {
        sum_rows(dy.reshape({kSamples * kTokens, kOut}), some_lengths());
      },
      {"sum_rows: needs dy [B, T, O] beside lengths, got [1024, 384]"});
}

TEST(LinearLengths, MayBeZeros) {
  const Tensor x = normal({kSamples, kTokens, kIn}, "x"), weight = normal({kOut, kIn}, "weight"), none = full({kSamples}, 0, DType::i32);
  const auto is_zero = [](const Tensor& y) { return y.to_vector() == std::vector<double>(static_cast<size_t>(y.elements())); };
  EXPECT_TRUE(is_zero(linear(x, weight, {}, none)));
  const Tensor dw = full({kOut, kIn}, 7);
  const Tensor rows = x.reshape({kSamples * kTokens, kIn});
  matmul_without_padding(rows, rows, dw, true, false, none);
  EXPECT_TRUE(is_zero(dw));
}

TEST(LinearLengths, NeedAResultOfTheProductsShape) {
  const Tensor rows = normal({kSamples * kTokens, kIn}, "x");
  for (const Shape& wrong : {Shape{kIn, kIn + 1}, Shape{kIn - 1, kIn}})
    EXPECT_THROW(matmul_without_padding(rows, rows, empty(wrong, DType::f32), true, false, some_lengths()), UsageError) << wrong;
  const Tensor few = normal({kSamples * kTokens - 1, kIn}, "few");
  EXPECT_THROW(matmul_without_padding(few, few, empty({kIn, kIn}, DType::f32), true, false, some_lengths()), UsageError);
}

TEST(LinearLengths, ThatAreNoneAreRefusedWithTheSample) {
  const Tensor x = normal({kSamples, kTokens, kIn}, "x"), weight = normal({kOut, kIn}, "weight");
  try {
    linear(x, weight, {}, tensor_of({1, 2, 257, 0}, {kSamples}, DType::i32));
    FAIL() << "a length beyond the tokens";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("[0, 256], got 257 of sample 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice
