#include "core/cpu/amx_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpu/amx.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/packed_gemm.h"
#include "core/ops/matmul.h"
#include "core/random.h"

// Where the processor has no tiles, the plain loops that stand in for them are tested: what is around them is the same.
namespace sluice {
namespace {

template <class T>
std::vector<T> drawn(int64_t count, const char* name) {
  const Tensor x = empty({count}, dtype_of<T>());
  fill_normal(x, 0, 1, random_key(1, name));
  return {x.data<T>(), x.data<T>() + count};
}

/// Memory of a product on a cache line.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 64) {}
  void* data() {
    void* begin = memory_.data();
    size_t space = memory_.size();
    return std::align(64, memory_.size() - 64, begin, space);
  }

 private:
  std::vector<unsigned char> memory_;
};

constexpr int64_t kGap = 5;  // between rows
constexpr float kBefore = 7;

/// A product of bf16 with a result of C, which holds kBefore.
template <class C>
struct Product {
  Product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, double beta = 0, bool has_bias = false)
      : of{.dtype = DType::bf16,
           .m = m,
           .n = n,
           .k = k,
           .a_ld = (transpose_a ? m : k) + kGap,
           .b_ld = (transpose_b ? k : n) + kGap,
           .c_ld = n + kGap,
           .transpose_a = transpose_a,
           .transpose_b = transpose_b,
           .beta = beta,
           .has_bias = has_bias,
           .f32_result = std::is_same_v<C, float>},
        a(drawn<bfloat16>((transpose_a ? k : m) * of.a_ld, "a")),
        b(drawn<bfloat16>((transpose_b ? n : k) * of.b_ld, "b")),
        bias(drawn<C>(n, "bias")) {}

  std::vector<C> before() const { return std::vector<C>(static_cast<size_t>(of.m * of.c_ld), static_cast<C>(kBefore)); }
  std::vector<C> by_amx() const { return by_amx({0, of.m}, {0, of.n}); }
  /// Of rows and columns [first, second) alone.
  std::vector<C> by_amx(std::pair<int64_t, int64_t> rows, std::pair<int64_t, int64_t> columns) const {
    std::vector<C> c = before();
    onednn::Product part = of;
    part.m = rows.second - rows.first, part.n = columns.second - columns.first;
    Scratch scratch(amx_gemm_scratch(part));
    EXPECT_LE(amx_gemm_scratch(part), amx_gemm_scratch(of));
    amx_gemm(part, a.data() + rows.first * (of.transpose_a ? 1 : of.a_ld), b.data() + columns.first * (of.transpose_b ? of.b_ld : 1),
             bias.data() + columns.first, c.data() + rows.first * of.c_ld + columns.first, scratch.data());
    return c;
  }
  std::vector<C> expected() const {
    std::vector<C> c = before();
    Scratch scratch(packed_gemm_scratch(of) * static_cast<int64_t>(sizeof(float)));
    packed_gemm(of, a.data(), b.data(), bias.data(), c.data(), {}, static_cast<float*>(scratch.data()));
    return c;
  }

  onednn::Product of;
  std::vector<bfloat16> a, b;
  std::vector<C> bias;
};

struct Size {
  int64_t m, n, k;
};
// Tiles, panels, blocks and what is packed at once, whole, with one more and with one less.
constexpr Size kSizes[] = {{1, 1, 1},       {16, 16, 32},    {17, 15, 31},     {32, 32, 33},    {33, 31, 64},
                           {48, 50, 511},   {5, 9, 0},       {257, 16, 513},   {255, 513, 256}, {40, 1025, 300},
                           {260, 70, 2048}, {70, 530, 2049}, {1030, 40, 2100}, {20, 1060, 2300}};

template <class C>
void expect_products_as_of_packed_gemm() {
  for (const auto& [m, n, k] : kSizes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const int start : {0, 1, 2}) {  // from zero, from c, from a bias
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << " " << transpose_a << transpose_b << start);
          const Product<C> product(m, n, k, transpose_a, transpose_b, start == 1, start == 2);
          const std::vector<C> got = product.by_amx(), expected = product.expected();
          for (size_t i = 0; i < got.size(); ++i) {
            const auto value = static_cast<float>(expected[i]);
            const float rounding = std::is_same_v<C, float> ? 0 : std::abs(value) / 128;  // the two may round to neighbours
            ASSERT_NEAR(static_cast<float>(got[i]), value, 4e-5 * std::sqrt(k + 1) + rounding) << "element " << i;
          }
        }
}

TEST(AmxGemm, MultipliesMatricesOfEverySizeAndLayout) {
  expect_products_as_of_packed_gemm<bfloat16>();
  expect_products_as_of_packed_gemm<float>();
}

/// So that micro-batches and threads may cut a product anywhere.
template <class C>
void expect_same_bits_however_cut(const Size& size, bool transpose_a, bool transpose_b) {
  const Product<C> product(size.m, size.n, size.k, transpose_a, transpose_b, 0, true);
  const std::vector<C> whole = product.by_amx();
  for (const std::pair<int64_t, int64_t>& rows : {std::pair{int64_t{0}, size.m / 2 + 1}, {size.m / 2 + 3, size.m}, {size.m - 1, size.m}}) {
    const std::pair<int64_t, int64_t> columns{size.n / 3, size.n};
    const std::vector<C> part = product.by_amx(rows, columns);
    for (int64_t i = rows.first; i < rows.second; ++i) {
      const int64_t first = i * product.of.c_ld + columns.first;
      ASSERT_EQ(0, std::memcmp(&part[first], &whole[first], (columns.second - columns.first) * sizeof(C))) << "row " << i;
    }
  }
}

TEST(AmxGemm, GivesAnElementTheSameBitsHoweverTheProductIsCut) {
  for (const bool transpose : {false, true}) {
    expect_same_bits_however_cut<bfloat16>({150, 90, 500}, transpose, !transpose);
    expect_same_bits_however_cut<bfloat16>({1100, 70, 2500}, transpose, !transpose);
    expect_same_bits_however_cut<float>({300, 600, 1700}, transpose, transpose);
  }
}

TEST(AmxGemm, KeepsWhatIsNoNumber) {
  constexpr int64_t kRows = 40, kColumns = 40;  // a whole panel and parts of three
  const bfloat16 infinite(HUGE_VALF), one(1.0f);
  std::vector<bfloat16> a(kRows * 2, one), b(2 * kColumns, one), c(kRows * kColumns);
  a[0] = infinite, a[2] = infinite, a[3] = bfloat16(-HUGE_VALF);
  onednn::Product of{.dtype = DType::bf16, .m = kRows, .n = kColumns, .k = 2, .a_ld = 2, .b_ld = kColumns, .c_ld = kColumns};
  Scratch scratch(amx_gemm_scratch(of));
  amx_gemm<bfloat16>(of, a.data(), b.data(), nullptr, c.data(), scratch.data());
  EXPECT_TRUE(std::isinf(static_cast<float>(c[0])));
  EXPECT_TRUE(std::isnan(static_cast<float>(c[kColumns])));
  EXPECT_EQ(static_cast<float>(c[2 * kColumns]), 2);
}

/// Numbers of bf16 lie 2 apart from 256 on. In the middle the even one is the nearer.
TEST(AmxGemm, RoundsASumOnce) {
  constexpr int64_t kSize = 40;
  for (const auto& [other, rounded] : {std::pair{1.0f, 256.0f}, {3.0f, 260.0f}, {1.5f, 258.0f}}) {
    std::vector<bfloat16> a(kSize * 2, bfloat16(1.0f)), b(2 * kSize), c(kSize * kSize);
    for (int64_t j = 0; j < kSize; ++j) b[j] = bfloat16(256.0f), b[kSize + j] = bfloat16(other);
    onednn::Product of{.dtype = DType::bf16, .m = kSize, .n = kSize, .k = 2, .a_ld = 2, .b_ld = kSize, .c_ld = kSize};
    Scratch scratch(amx_gemm_scratch(of));
    amx_gemm<bfloat16>(of, a.data(), b.data(), nullptr, c.data(), scratch.data());
    for (const bfloat16 value : c) ASSERT_EQ(static_cast<float>(value), rounded);
  }
}

TEST(AmxGemm, GivesProductsOfBf16TheSameBitsForEveryNumberOfThreads) {
  const auto product = [](int threads) {
    const DevicePtr device = make_device("cpu:0", {.threads = threads});
    const Tensor a = empty({3, 130, 520}, DType::bf16, device), b = empty({520, 290}, DType::bf16, device);
    fill_normal(a, 0, 1, random_key(1, "a"));
    fill_normal(b, 0, 1, random_key(1, "b"));
    return matmul(a, b).to_vector();
  };
  const auto one = product(1);
  for (const int threads : {2, 3}) EXPECT_EQ(product(threads), one) << threads;
}

/// Ranks and continued trainings on processors of other bits are refused by this text.
TEST(AmxGemm, IsPartOfTheInstructionSet) { EXPECT_EQ(instruction_set().find("amx-bf16") != std::string::npos, has_amx()); }

}  // namespace
}  // namespace sluice
