#include "core/cpu/packed_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/ops/linear.h"
#include "core/ops/matmul.h"
#include "core/random.h"
#include "drawn_product.h"

using namespace sluice;
using sluice::testing::kUntouched;

namespace {

template <class T = float, class C = T>
struct Case : sluice::testing::DrawnProduct<T, C> {
  using Base = sluice::testing::DrawnProduct<T, C>;
  using Base::Base, Base::product, Base::a, Base::b, Base::bias, Base::c;

  T a_at(int64_t i, int64_t p) const { return a[product.transpose_a ? p * product.a_ld + i : i * product.a_ld + p]; }
  T b_at(int64_t p, int64_t j) const { return b[product.transpose_b ? j * product.b_ld + p : p * product.b_ld + j]; }
  /// The chain of multiply-adds of one element over the given terms, in double.
  double expected(int64_t i, int64_t j, const std::vector<int32_t>& terms) const {
    double sum = product.has_bias ? static_cast<double>(bias[j]) : product.beta == 1 ? kUntouched : 0;
    for (const int32_t p : terms) sum += static_cast<double>(a_at(i, p)) * static_cast<double>(b_at(p, j));
    return sum;
  }
  void run(onednn::Product part, ListedRows rows = {}) {
    sluice::testing::LineScratch scratch(packed_gemm_scratch(product) * static_cast<int64_t>(sizeof(float)));
    packed_gemm(part, a.data(), b.data(), bias.data(), c.data(), rows, static_cast<float*>(scratch.data()));
  }
};

std::vector<int32_t> first_numbers(int64_t count) {
  std::vector<int32_t> all(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

template <class T, class C>
void expect_product(const Case<T, C>& of, const std::vector<int32_t>& rows, const std::vector<int32_t>& terms, int64_t n) {
  size_t listed = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(of.c.size()) / of.product.c_ld; ++i) {
    const bool is_listed = listed < rows.size() && rows[listed] == i;
    listed += is_listed;
    for (int64_t j = 0; j < of.product.c_ld; ++j) {
      const auto got = static_cast<double>(of.c[i * of.product.c_ld + j]);
      if (!is_listed || j >= n) {
        ASSERT_EQ(got, kUntouched) << "row " << i << ", column " << j;
        continue;
      }
      const double expected = of.expected(i, j, terms), rounding = std::is_same_v<C, float> ? 0 : std::abs(expected) / 256;
      ASSERT_NEAR(got, expected, 1e-5 * std::sqrt(terms.size()) * 4 + rounding) << "row " << i << ", column " << j;
    }
  }
}

struct Size {
  int64_t m, n, k;
};
// Tiles, panels and blocks that are whole, one more and one less, of every width of registers.
constexpr Size kSizes[] = {{1, 1, 1},     {6, 16, 8},     {14, 32, 16},    {7, 17, 9},   {5, 31, 383},   {13, 33, 385},  {145, 47, 20},
                           {337, 40, 30}, {30, 1537, 17}, {150, 100, 800}, {90, 48, 33}, {13, 70, 1540}, {1020, 9, 1600}};

template <class T, class C>
void expect_products_of_every_size_and_layout() {
  for (const auto& [m, n, k] : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const int start : {0, 1, 2}) {  // from zero, from c, from a bias
          SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " " << transpose_a << transpose_b << start);
          Case<T, C> of(m, n, k, transpose_a, transpose_b, start == 1, start == 2);
          of.run(of.product);
          expect_product(of, first_numbers(m), first_numbers(k), n);
        }
}

TEST(PackedGemm, MultipliesMatricesOfEverySizeAndLayout) { expect_products_of_every_size_and_layout<float, float>(); }

TEST(PackedGemm, MultipliesBf16AndRoundsTheSumsOnceOrLeavesThem) {
  expect_products_of_every_size_and_layout<bfloat16, bfloat16>();
  expect_products_of_every_size_and_layout<bfloat16, float>();
}

TEST(PackedGemm, WorksOnListedRowsAlone) {
  const std::vector<int32_t> listed{0, 1, 2, 3, 4, 5, 6, 9, 10, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 77};
  const int64_t rows = 80, count = static_cast<int64_t>(listed.size());
  for (const bool has_bias : {false, true})
    for (const bool transpose_b : {false, true}) {
      Case<> of(rows, 37, 50, false, transpose_b, 0, has_bias);
      onednn::Product part = of.product;
      part.m = count;
      of.run(part, {listed.data()});
      expect_product(of, listed, first_numbers(50), 37);
    }
  Case<> sum(50, 37, rows, true, false);
  onednn::Product part = sum.product;
  part.k = count;
  sum.run(part, {listed.data()});
  expect_product(sum, first_numbers(50), listed, 37);
}

template <class T, class C>
void expect_same_bits_of_parts(int64_t rows, int64_t k) {
  Case<T, C> whole(rows, 70, k, false, true, 0, true);
  whole.run(whole.product);
  for (const int64_t first : {int64_t{0}, int64_t{1}, rows / 2 + 2, rows - 1}) {
    Case<T, C> part(rows, 70, k, false, true, 0, true);
    const auto numbers = first_numbers(rows);
    onednn::Product of = part.product;
    of.m = rows - first, of.n = 33;
    part.run(of, {numbers.data() + first});
    for (int64_t i = first; i < rows; ++i)
      ASSERT_EQ(0, std::memcmp(&part.c[i * part.product.c_ld], &whole.c[i * whole.product.c_ld], 33 * sizeof(C))) << i;
  }
}

/// So that micro-batches, threads and lists of rows may cut a product anywhere.
TEST(PackedGemm, GivesAnElementTheSameBitsHoweverTheProductIsCut) {
  expect_same_bits_of_parts<float, float>(150, 500);
  expect_same_bits_of_parts<bfloat16, bfloat16>(150, 500);
  expect_same_bits_of_parts<bfloat16, bfloat16>(1100, 1700);
  expect_same_bits_of_parts<bfloat16, float>(150, 1700);
}

TEST(PackedGemm, GivesAProductTheSameBitsForEveryNumberOfThreads) {
  const auto product = [](int threads, bool transpose_a) {
    const DevicePtr device = make_device("cpu:0", {.threads = threads});
    const Tensor a = empty(transpose_a ? Shape{520, 530} : Shape{530, 520}, DType::f32, device), b = empty({520, 540}, DType::f32, device);
    fill_normal(a, 0, 1, random_key(1, "a"));
    fill_normal(b, 0, 1, random_key(1, "b"));
    return matmul(a, b, transpose_a).to_vector();
  };
  for (const bool transpose_a : {false, true}) {
    const auto one = product(1, transpose_a);
    for (const int threads : {2, 3}) EXPECT_EQ(product(threads, transpose_a), one) << threads;
  }
}

/// Which way a product goes depends on its shape: tall gradients of weights, and biases of long sums, go ways of their own.
TEST(Products, HaveTheSameBitsForEveryNumberOfThreadsWhicheverWayTheyGo) {
  const auto randn = [](const Shape& shape, const DevicePtr& device) {
    const Tensor x = empty(shape, DType::f32, device);
    fill_normal(x, 0, 1, random_key(1, "x"));
    return x;
  };
  const auto tall = [&](const DevicePtr& device) { return matmul(randn({130, 1100}, device), randn({130, 64}, device), true); };
  const auto biased = [&](const DevicePtr& device) {
    return linear(randn({900, 400}, device), randn({400, 400}, device), randn({400}, device));
  };
  const auto results = [&](int threads) {
    const DevicePtr device = make_device("cpu:0", {.threads = threads});
    return std::vector{tall(device).to_vector(), biased(device).to_vector()};
  };
  const auto one = results(1);
  for (const int threads : {2, 3}) EXPECT_EQ(results(threads), one) << threads;
}

}  // namespace
