#include "core/cpu/packed_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/ops/matmul.h"
#include "core/random.h"

using namespace sluice;

namespace {

std::vector<float> numbers(int64_t count, const char* name) {
  const Tensor x = empty({count}, DType::f32);
  fill_normal(x, 0, 1, random_key(1, name));
  return {x.data<float>(), x.data<float>() + count};
}

constexpr int64_t kGap = 3;  // between rows
constexpr float kUntouched = 7;

/// A product with operands of its own. Rows of c and their gaps hold kUntouched before, or other numbers for beta = 1.
struct Case {
  Case(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, double beta = 0, bool has_bias = false)
      : product{.m = m,
                .n = n,
                .k = k,
                .a_ld = (transpose_a ? m : k) + kGap,
                .b_ld = (transpose_b ? k : n) + kGap,
                .c_ld = n + kGap,
                .transpose_a = transpose_a,
                .transpose_b = transpose_b,
                .beta = beta,
                .has_bias = has_bias},
        a(numbers((transpose_a ? k : m) * product.a_ld, "a")),
        b(numbers((transpose_b ? n : k) * product.b_ld, "b")),
        bias(numbers(n, "bias")),
        c(static_cast<size_t>(m * product.c_ld), kUntouched) {}

  float a_at(int64_t i, int64_t p) const { return a[product.transpose_a ? p * product.a_ld + i : i * product.a_ld + p]; }
  float b_at(int64_t p, int64_t j) const { return b[product.transpose_b ? j * product.b_ld + p : p * product.b_ld + j]; }
  /// The chain of multiply-adds of one element over the given terms, in double.
  double expected(int64_t i, int64_t j, const std::vector<int32_t>& terms) const {
    double sum = product.has_bias ? bias[j] : product.beta == 1 ? kUntouched : 0;
    for (const int32_t p : terms) sum += static_cast<double>(a_at(i, p)) * b_at(p, j);
    return sum;
  }
  void run(onednn::Product part, ListedRows rows = {}) {
    std::vector<float> scratch(packed_gemm_scratch(product) + 16);
    void* aligned = scratch.data();
    size_t space = scratch.size() * sizeof(float);
    packed_gemm(part, a.data(), b.data(), bias.data(), c.data(), rows,
                static_cast<float*>(std::align(64, packed_gemm_scratch(product) * sizeof(float), aligned, space)));
  }

  onednn::Product product;
  std::vector<float> a, b, bias, c;
};

std::vector<int32_t> first_numbers(int64_t count) {
  std::vector<int32_t> all(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

void expect_product(const Case& of, const std::vector<int32_t>& rows, const std::vector<int32_t>& terms, int64_t n) {
  size_t listed = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(of.c.size()) / of.product.c_ld; ++i) {
    const bool is_listed = listed < rows.size() && rows[listed] == i;
    listed += is_listed;
    for (int64_t j = 0; j < of.product.c_ld; ++j) {
      const float got = of.c[i * of.product.c_ld + j];
      if (is_listed && j < n)
        ASSERT_NEAR(got, of.expected(i, j, terms), 1e-5 * std::sqrt(terms.size()) * 4) << "row " << i << ", column " << j;
      else
        ASSERT_EQ(got, kUntouched) << "row " << i << ", column " << j;
    }
  }
}

struct Size {
  int64_t m, n, k;
};
// Tiles, panels and blocks that are whole, one more and one less, of every width of registers.
constexpr Size kSizes[] = {{1, 1, 1},     {6, 16, 8},    {14, 32, 16},   {7, 17, 9},      {5, 31, 383}, {13, 33, 385},
                           {145, 47, 20}, {337, 40, 30}, {30, 1537, 17}, {150, 100, 800}, {90, 48, 33}, {13, 70, 1540}};

TEST(PackedGemm, MultipliesMatricesOfEverySizeAndLayout) {
  for (const auto& [m, n, k] : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const int start : {0, 1, 2}) {  // from zero, from c, from a bias
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " " << transpose_a << transpose_b << start);
          Case of(m, n, k, transpose_a, transpose_b, start == 1, start == 2);
          of.run(of.product);
          expect_product(of, first_numbers(m), first_numbers(k), n);
        }
}

TEST(PackedGemm, WorksOnListedRowsAlone) {
  const std::vector<int32_t> listed{0, 1, 2, 3, 4, 5, 6, 9, 10, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 77};
  const int64_t rows = 80, count = static_cast<int64_t>(listed.size());
  for (const bool has_bias : {false, true})
    for (const bool transpose_b : {false, true}) {
      Case of(rows, 37, 50, false, transpose_b, 0, has_bias);
      onednn::Product part = of.product;
      part.m = count;
      of.run(part, {listed.data()});
      expect_product(of, listed, first_numbers(50), 37);
    }
  Case sum(50, 37, rows, true, false);
  onednn::Product part = sum.product;
  part.k = count;
  sum.run(part, {listed.data()});
  expect_product(sum, first_numbers(50), listed, 37);
}

/// So that micro-batches, threads and lists of rows may cut a product anywhere.
TEST(PackedGemm, GivesAnElementTheSameBitsHoweverTheProductIsCut) {
  Case whole(150, 70, 500, false, true, 0, true);
  whole.run(whole.product);
  for (const int64_t first : {0, 1, 77, 149}) {
    Case part(150, 70, 500, false, true, 0, true);
    const auto rows = first_numbers(150);
    onednn::Product of = part.product;
    of.m = 150 - first, of.n = 33;
    part.run(of, {rows.data() + first});
    for (int64_t i = first; i < 150; ++i)
      ASSERT_EQ(0, std::memcmp(&part.c[i * part.product.c_ld], &whole.c[i * whole.product.c_ld], 33 * sizeof(float))) << i;
  }
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

}  // namespace
