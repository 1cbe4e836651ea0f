#include "core/cpu/amx_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpu/amx.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/packed_gemm.h"
#include "core/ops/matmul.h"
#include "core/random.h"
#include "drawn_product.h"

// Where the processor has no tiles, the plain loops that stand in for them are tested: what is around them is the same.
namespace sluice {
namespace {

/// A product of T with a result of C.
template <class T, class C>
struct Product : testing::DrawnProduct<T, C> {
  using Base = testing::DrawnProduct<T, C>;
  using Base::Base, Base::product, Base::a, Base::b, Base::bias, Base::c;

  std::vector<C> by_amx() const { return by_amx({0, product.m}, {0, product.n}); }
  /// Of rows and columns [first, second) alone.
  std::vector<C> by_amx(std::pair<int64_t, int64_t> rows, std::pair<int64_t, int64_t> columns) const {
    std::vector<C> result = c;
    onednn::Product part = product;
    part.m = rows.second - rows.first, part.n = columns.second - columns.first;
    EXPECT_LE(amx_gemm_scratch(part), amx_gemm_scratch(product));
    testing::LineScratch scratch(amx_gemm_scratch(part));
    amx_gemm(part, a.data() + rows.first * (product.transpose_a ? 1 : product.a_ld),
             b.data() + columns.first * (product.transpose_b ? product.b_ld : 1), bias.data() + columns.first,
             result.data() + rows.first * product.c_ld + columns.first, {}, scratch.data());
    return result;
  }
  std::vector<C> expected() const {
    std::vector<C> result = c;
    testing::LineScratch scratch(packed_gemm_scratch(product) * static_cast<int64_t>(sizeof(float)));
    packed_gemm(product, a.data(), b.data(), bias.data(), result.data(), {}, static_cast<float*>(scratch.data()));
    return result;
  }
};

struct Size {
  int64_t m, n, k;
};
// Tiles, panels, blocks and what is packed at once, whole, with one more and with one less.
constexpr Size kSizes[] = {{1, 1, 1},       {16, 16, 32},     {17, 15, 31},    {32, 32, 33},    {33, 31, 64},
                           {48, 50, 511},   {257, 16, 513},   {255, 513, 256}, {40, 1025, 300}, {260, 70, 2048},
                           {70, 530, 2049}, {1030, 40, 2100}, {20, 1060, 2300}};

template <class T, class C>
void expect_products_as_of_packed_gemm() {
  for (const auto& [m, n, k] : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const int start : {0, 1, 2}) {  // from zero, from c, from a bias
          SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " " << transpose_a << transpose_b << start);
          const Product<T, C> product(m, n, k, transpose_a, transpose_b, start == 1, start == 2);
          const std::vector<C> got = product.by_amx(), expected = product.expected();
          for (size_t i = 0; i < got.size(); ++i) {
            const auto value = static_cast<float>(expected[i]);
            const float rounding = std::is_same_v<C, float> ? 0 : std::abs(value) / 128;  // the two may round to neighbours
            ASSERT_NEAR(static_cast<float>(got[i]), value, 4e-5 * std::sqrt(k + 1) + rounding) << "element " << i;
          }
        }
}

TEST(AmxGemm, MultipliesMatricesOfEverySizeAndLayout) {
  expect_products_as_of_packed_gemm<bfloat16, bfloat16>();
  expect_products_as_of_packed_gemm<bfloat16, float>();
  expect_products_as_of_packed_gemm<float, float>();
}

/// So that micro-batches and threads may cut a product anywhere.
template <class T, class C>
void expect_same_bits_however_cut(const Size& size, bool transpose_a, bool transpose_b) {
  const Product<T, C> product(size.m, size.n, size.k, transpose_a, transpose_b, 0, true);
  const std::vector<C> whole = product.by_amx();
  for (const std::pair<int64_t, int64_t>& rows : {std::pair{int64_t{0}, size.m / 2 + 1}, {size.m / 2 + 3, size.m}, {size.m - 1, size.m}}) {
    const std::pair<int64_t, int64_t> columns{size.n / 3, size.n};
    const std::vector<C> part = product.by_amx(rows, columns);
    for (int64_t i = rows.first; i < rows.second; ++i) {
      const int64_t first = i * product.product.c_ld + columns.first;
      ASSERT_EQ(0, std::memcmp(&part[first], &whole[first], (columns.second - columns.first) * sizeof(C))) << "row " << i;
    }
  }
}

TEST(AmxGemm, GivesAnElementTheSameBitsHoweverTheProductIsCut) {
  for (const bool transpose : {false, true}) {
    expect_same_bits_however_cut<bfloat16, bfloat16>({150, 90, 500}, transpose, !transpose);
    expect_same_bits_however_cut<bfloat16, bfloat16>({1100, 70, 2500}, transpose, !transpose);
    expect_same_bits_however_cut<bfloat16, float>({300, 600, 1700}, transpose, transpose);
    expect_same_bits_however_cut<float, float>({300, 300, 300}, transpose, !transpose);
    expect_same_bits_however_cut<float, float>({1100, 70, 2500}, transpose, transpose);
  }
}

/// So that a gradient may be added to those of other micro-batches by its product, or by a pass.
template <class T>
void expect_bits_of_a_pass(const Size& size, bool transpose_a, bool transpose_b) {
  const Product<T, float> alone(size.m, size.n, size.k, transpose_a, transpose_b);
  Product<T, float> onto(size.m, size.n, size.k, transpose_a, transpose_b, 1);
  onto.c = testing::drawn_numbers<float>(static_cast<int64_t>(onto.c.size()), "c");
  std::vector<float> expected = onto.c;
  const std::vector<float> product = alone.by_amx(), got = onto.by_amx();
  for (int64_t i = 0; i < size.m; ++i)
    for (int64_t j = 0; j < size.n; ++j) expected[i * onto.product.c_ld + j] += product[i * onto.product.c_ld + j];
  ASSERT_EQ(0, std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)));
}

TEST(AmxGemm, AddsToItsResultAsAPassWould) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(::testing::Message() << size.m << " x " << size.n << " x " << size.k);
    for (const bool transpose : {false, true}) {
      expect_bits_of_a_pass<bfloat16>(size, transpose, !transpose);
      expect_bits_of_a_pass<float>(size, transpose, false);
    }
  }
}

/// Rows that are listed give the bits that they give side by side, and others are neither read nor written.
template <class T, class C>
void expect_listed_rows(const Size& size, bool transpose_a, bool transpose_b, int start) {
  const int64_t all = transpose_a ? size.k : size.m;
  std::vector<int32_t> listed;
  for (int32_t i = 0; i < all; ++i)
    if (i % 50 < 37 || i % 3 == 0) listed.push_back(i);
  Product<T, C> product(size.m, size.n, size.k, transpose_a, transpose_b, start == 1, start == 2), compact = product;
  (transpose_a ? product.product.k : product.product.m) = (transpose_a ? compact.product.k : compact.product.m) =
      static_cast<int64_t>(listed.size());
  const auto move = [&](auto& from, auto& to, int64_t step) {
    for (size_t i = 0; i < listed.size(); ++i) std::copy_n(from.begin() + listed[i] * step, step, to.begin() + i * step);
  };
  move(product.a, compact.a, product.product.a_ld);
  if (transpose_a) move(product.b, compact.b, product.product.b_ld);
  const T nan(NAN);
  for (int32_t i = 0; i < all; ++i)
    if (!std::ranges::binary_search(listed, i)) {
      std::fill_n(product.a.begin() + i * product.product.a_ld, product.product.a_ld, nan);
      if (transpose_a) std::fill_n(product.b.begin() + i * product.product.b_ld, product.product.b_ld, nan);
    }
  std::vector<C> expected = product.c, result = product.c, side_by_side = compact.c;
  testing::LineScratch scratch(amx_gemm_scratch(product.product));
  amx_gemm(product.product, product.a.data(), product.b.data(), product.bias.data(), result.data(), {listed.data()}, scratch.data());
  amx_gemm(compact.product, compact.a.data(), compact.b.data(), compact.bias.data(), side_by_side.data(), {}, scratch.data());
  if (transpose_a)
    expected = side_by_side;
  else
    for (size_t i = 0; i < listed.size(); ++i)
      std::copy_n(side_by_side.begin() + i * product.product.c_ld, product.product.c_ld,
                  expected.begin() + listed[i] * product.product.c_ld);
  EXPECT_EQ(0, std::memcmp(result.data(), expected.data(), result.size() * sizeof(C)));
}

TEST(AmxGemm, WorksOnListedRowsAlone) {
  for (const int start : {0, 1, 2}) {  // from zero, from c, from a bias
    for (const bool transpose_b : {false, true}) expect_listed_rows<float, float>({310, 70, 80}, false, transpose_b, start);
    expect_listed_rows<float, float>({70, 300, 700}, true, false, start);
    expect_listed_rows<bfloat16, bfloat16>({310, 70, 80}, false, true, start);
    expect_listed_rows<bfloat16, float>({70, 300, 700}, true, false, start);
  }
}

// Products that leave padding out, or are shared among threads, are smaller than the one that scratch is made for; a smaller one may be cut into
// other blocks.
TEST(AmxGemm, HasScratchForSmallerProducts) {
  const std::vector<int64_t> extents{20, 64, 65, 129, 200, 256, 257, 500, 513, 1100},
      depths{100, 129, 200, 256, 513, 600, 2048, 2049, 5000};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t m : extents)
      for (const int64_t n : extents)
        for (const int64_t k : depths) {
          const onednn::Product whole{dtype, m, n, k, k, k, n, false, true, 0, false, true};
          const int64_t most = amx_gemm_scratch(whole);
          onednn::Product part = whole;
          for (part.k = 1; part.k < k; part.k += 31) ASSERT_LE(amx_gemm_scratch(part), most) << m << ' ' << n << ' ' << k << ' ' << part.k;
          for (part.m = 1; part.m <= m; part.m += 63)
            for (part.n = 1; part.n <= n; part.n += 63)
              for (int64_t depth : depths) {
                part.k = std::min(depth, k);
                ASSERT_LE(amx_gemm_scratch(part), most) << m << ' ' << n << ' ' << k << ": " << part.m << ' ' << part.n << ' ' << part.k;
              }
        }
}

TEST(AmxGemm, KeepsWhatIsNoNumber) {
  constexpr int64_t kRows = 40, kColumns = 40;  // a whole panel and parts of three
  const bfloat16 infinite(HUGE_VALF), one(1.0f);
  std::vector<bfloat16> a(kRows * 2, one), b(2 * kColumns, one), c(kRows * kColumns);
  a[0] = infinite, a[2] = infinite, a[3] = bfloat16(-HUGE_VALF);
  onednn::Product of{.dtype = DType::bf16, .m = kRows, .n = kColumns, .k = 2, .a_ld = 2, .b_ld = kColumns, .c_ld = kColumns};
  testing::LineScratch scratch(amx_gemm_scratch(of));
  amx_gemm<bfloat16, bfloat16>(of, a.data(), b.data(), nullptr, c.data(), {}, scratch.data());
  EXPECT_TRUE(std::isinf(static_cast<float>(c[0])));
  EXPECT_TRUE(std::isnan(static_cast<float>(c[kColumns])));
  EXPECT_EQ(static_cast<float>(c[2 * kColumns]), 2);
}

/// Root of the mean square of what a result differs from sums in f64.
double error_of(const Product<float, float>& of, const std::vector<float>& result) {
  const onednn::Product& p = of.product;
  double sum = 0;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double exact = 0;
      for (int64_t k = 0; k < p.k; ++k) exact += static_cast<double>(of.a[i * p.a_ld + k]) * of.b[k * p.b_ld + j];
      sum += std::pow(result[i * p.c_ld + j] - exact, 2);
    }
  return std::sqrt(sum / static_cast<double>(p.m * p.n));
}

/// Three parts in bf16 and six products of them leave no more of an error than f32 alone does.
TEST(AmxGemm, IsAsExactInF32AsMultiplyAdds) {
  for (const int64_t depth : {32, 100, 384, 2100}) {
    const Product<float, float> product(70, 90, depth, false, false);
    EXPECT_LE(error_of(product, product.by_amx()), error_of(product, product.expected())) << "depth " << depth;
  }
}

/// Of a number in f32 that is infinite, beyond the numbers of bf16, or none, nothing but NaN is left, in its row alone.
TEST(AmxGemm, TellsInF32WhatIsNoNumber) {
  constexpr int64_t kSize = 40;
  for (const float odd : {HUGE_VALF, -HUGE_VALF, 3.4e38f, std::nanf("")}) {
    std::vector<float> a(kSize * kSize, 1.0f), b(kSize * kSize, 1.0f), c(kSize * kSize);
    a[3 * kSize + 5] = odd;
    onednn::Product of{
        .dtype = DType::f32, .m = kSize, .n = kSize, .k = kSize, .a_ld = kSize, .b_ld = kSize, .c_ld = kSize, .f32_result = true};
    testing::LineScratch scratch(amx_gemm_scratch(of));
    amx_gemm<float, float>(of, a.data(), b.data(), nullptr, c.data(), {}, scratch.data());
    for (int64_t i = 0; i < kSize; ++i)
      for (int64_t j = 0; j < kSize; ++j)
        ASSERT_TRUE(i == 3 ? std::isnan(c[i * kSize + j]) : c[i * kSize + j] == kSize) << odd << " at " << i << ", " << j;
  }
}

/// Of a number in f32 near the least normal one the first part is left, and of one below it nothing or itself.
TEST(AmxGemm, KeepsSmallNumbersOfF32) {
  constexpr int64_t kSize = 32;
  for (const auto& [small, least, most] : {std::tuple{1e-30f, 1e-30, 1e-30}, {1.3e-38f, 1.29e-38, 1.31e-38}, {1e-40f, 0.0, 1e-40}}) {
    std::vector<float> a(kSize * kSize), b(kSize * kSize), c(kSize * kSize);
    for (int64_t i = 0; i < kSize; ++i) a[i * kSize + i] = small, b[i * kSize + i] = 1;
    onednn::Product of{
        .dtype = DType::f32, .m = kSize, .n = kSize, .k = kSize, .a_ld = kSize, .b_ld = kSize, .c_ld = kSize, .f32_result = true};
    testing::LineScratch scratch(amx_gemm_scratch(of));
    amx_gemm<float, float>(of, a.data(), b.data(), nullptr, c.data(), {}, scratch.data());
    for (int64_t i = 0; i < kSize; ++i) {
      EXPECT_GE(c[i * kSize + i], static_cast<float>(least));
      EXPECT_LE(c[i * kSize + i], static_cast<float>(most));
    }
  }
}

/// Numbers of bf16 lie 2 apart from 256 on. In the middle the even one is the nearer.
TEST(AmxGemm, RoundsASumOnce) {
  constexpr int64_t kSize = 40;
  for (const auto& [other, rounded] : {std::pair{1.0f, 256.0f}, {3.0f, 260.0f}, {1.5f, 258.0f}}) {
    std::vector<bfloat16> a(kSize * 2, bfloat16(1.0f)), b(2 * kSize), c(kSize * kSize);
    for (int64_t j = 0; j < kSize; ++j) b[j] = bfloat16(256.0f), b[kSize + j] = bfloat16(other);
    onednn::Product of{.dtype = DType::bf16, .m = kSize, .n = kSize, .k = 2, .a_ld = 2, .b_ld = kSize, .c_ld = kSize};
    testing::LineScratch scratch(amx_gemm_scratch(of));
    amx_gemm<bfloat16, bfloat16>(of, a.data(), b.data(), nullptr, c.data(), {}, scratch.data());
    for (const bfloat16 value : c) ASSERT_EQ(static_cast<float>(value), rounded);
  }
}

TEST(AmxGemm, GivesProductsTheSameBitsForEveryNumberOfThreads) {
  const auto product = [](DType dtype, int threads) {
    const DevicePtr device = make_device("cpu:0", {.threads = threads});
    const Tensor a = empty({2, 530, 1030}, dtype, device), b = empty({1030, 270}, dtype, device);
    fill_normal(a, 0, 1, random_key(1, "a"));
    fill_normal(b, 0, 1, random_key(1, "b"));
    return matmul(a, b).to_vector();
  };
  for (const DType dtype : {DType::bf16, DType::f32}) {
    if (dtype == DType::f32 && !has_amx()) continue;  // libraries multiply then
    const auto one = product(dtype, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(product(dtype, threads), one) << name_of(dtype) << " " << threads;
  }
}

/// Ranks and continued trainings on processors of other bits are refused by this text.
TEST(AmxGemm, IsPartOfTheInstructionSet) { EXPECT_EQ(instruction_set().find("amx-bf16") != std::string::npos, has_amx()); }

}  // namespace
}  // namespace sluice
