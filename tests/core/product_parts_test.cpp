#include "core/cuda/product_parts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace sluice::cublas {
namespace {

/// One matrix product with whole numbers, which are exact in any order.
struct Matrices {
  std::vector<double> a, b, bias, c;
};

void run(const ProductPart& part, Matrices& on) {
  const Product& p = part.product;
  for (int64_t row = 0; row < p.m; ++row)
    for (int64_t column = 0; column < p.n; ++column) {
      double& c = on.c[part.c_offset + row * p.c_ld + column];
      c = (p.beta == 0 ? 0 : p.beta * c) + (p.has_bias ? on.bias[part.bias_offset + column] : 0);
      for (int64_t term = 0; term < p.k; ++term)
        c += on.a[part.a_offset + (p.transpose_a ? term * p.a_ld + row : row * p.a_ld + term)] *
             on.b[part.b_offset + (p.transpose_b ? column * p.b_ld + term : term * p.b_ld + column)];
    }
}

std::vector<double> numbers(int64_t count, int64_t seed) {
  std::vector<double> x(count);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<double>((i * 7919 + seed) % 13 - 6);
  return x;
}

Product product_of(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return dense_product(DType::bf16, m, n, k, transpose_a, transpose_b);
}

constexpr CutFrom kAll{.flops = 0, .extent = 0};

RC_GTEST_PROP(ProductParts, AreTheProduct, ()) {
  const auto extent = rc::gen::inRange<int64_t>(1, 30);
  Product whole = product_of(*extent, *extent, *extent, *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
  whole.c_dtype = *rc::gen::element(DType::bf16, DType::f32);
  whole.has_bias = *rc::gen::arbitrary<bool>();
  whole.beta = whole.has_bias ? 0 : *rc::gen::element(0, 1, 2);
  for (int64_t* ld : {&whole.a_ld, &whole.b_ld, &whole.c_ld}) *ld += *rc::gen::inRange<int64_t>(0, 9);
  Matrices at_once{numbers(whole.a_ld * 30, 1), numbers(whole.b_ld * 30, 2), numbers(whole.n, 3), numbers(whole.c_ld * whole.m, 4)};
  Matrices by_parts = at_once;
  run({whole}, at_once);
  for (const ProductPart& part : parts_of(whole, false, kAll)) run(part, by_parts);
  RC_ASSERT(by_parts.c == at_once.c);
}

/// c rounded to bf16 twice where it is added to would lose a bit at every micro-batch.
RC_GTEST_PROP(ProductParts, RoundTheSumOnce, ()) {
  const auto extent = rc::gen::inRange<int64_t>(1, 100);
  Product whole = product_of(*extent, *extent, *extent, *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
  whole.has_bias = *rc::gen::arbitrary<bool>();
  whole.beta = whole.has_bias ? 0 : 1;
  for (const ProductPart& part : parts_of(whole, false, kAll)) RC_ASSERT(part.product.k == whole.k);
}

std::vector<int64_t> operations_of(const std::vector<ProductPart>& parts) {
  std::vector<int64_t> all;
  for (const auto& [product, a, b, c, bias] : parts) all.push_back(product.m * product.n * product.k);
  return all;
}

/// The three products of GPT-2's logits of 50257: forward, and the gradients of its input and of its weights.
TEST(ProductParts, CutTheVocabularyOfGpt2AtWholePacks) {
  const int64_t tokens = 32768, width = 768, vocabulary = 50257, packs = 50256;
  const auto expect_packs = [&](const Product& whole, size_t place) {
    const auto parts = parts_of(whole, false);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(operations_of(parts)[place], tokens * width * packs);
    EXPECT_EQ(operations_of(parts)[1 - place], tokens * width);
  };
  expect_packs(product_of(tokens, vocabulary, width, false, true), 0);
  expect_packs(product_of(tokens, width, vocabulary, false, false), 1);  // what is left over of a sum comes first
  expect_packs(product_of(vocabulary, width, tokens, true, false), 0);
}

TEST(ProductParts, LeaveWholeWhatGainsNothing) {
  const Product logits = product_of(32768, 50257, 768, false, true);
  EXPECT_EQ(parts_of(product_of(32768, 50264, 768, false, true), false).size(), 1U);  // whole packs
  EXPECT_EQ(parts_of(product_of(32767, 50264, 768, false, true), false).size(), 1U);  // rows, which lie apart
  EXPECT_EQ(parts_of(product_of(128, 1001, 768, false, true), false).size(), 1U);     // little work
  EXPECT_EQ(parts_of(product_of(1 << 20, 7, 65536, false, true), false).size(), 1U);  // no whole pack
  Product other = logits;
  other.dtype = other.c_dtype = DType::f32;
  EXPECT_EQ(parts_of(other, false).size(), 1U);  // by no tensor cores
  EXPECT_EQ(parts_of(other, true).size(), 2U);
  other = logits;
  other.has_bias = other.has_gelu = true;  // of which the library keeps the rows before GELU
  EXPECT_EQ(parts_of(other, false).size(), 1U);
}

}  // namespace
}  // namespace sluice::cublas
