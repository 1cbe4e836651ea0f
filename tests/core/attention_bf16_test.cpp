#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/elements.h"
#include "core/ops/attention.h"
#include "core/ops/copy.h"
#include "core/random.h"

// On CPUs attention in bf16 goes a way of its own where the processor has AMX (core/ops/attention_amx_cpu.h).
namespace sluice {
namespace {

struct Sizes {
  int64_t samples, queries, keys, heads, key_heads, width;
  bool causal;
  std::vector<int32_t> query_lengths{}, key_lengths{};  ///< of samples; empty for all
};

Tensor lengths_of(const std::vector<int32_t>& numbers) {
  if (numbers.empty()) return {};
  const Tensor lengths = empty({static_cast<int64_t>(numbers.size())}, DType::i32);
  std::memcpy(lengths.data<int32_t>(), numbers.data(), numbers.size() * sizeof(int32_t));
  return lengths;
}

/// One draw of numbers of bf16, and what attention makes of them.
struct Attention {
  explicit Attention(const Sizes& of, DType dtype = DType::bf16) : sizes(of) {
    const Shape queries{of.samples, of.queries, of.heads, of.width}, keys{of.samples, of.keys, of.key_heads, of.width};
    const auto drawn = [&](const Shape& shape, const char* name) {
      const Tensor x = empty(shape, DType::bf16);
      fill_normal(x, 0, 1, random_key(1, name));
      return cast(x, dtype);
    };
    q = drawn(queries, "q"), dy = drawn(queries, "dy"), k = drawn(keys, "k"), v = drawn(keys, "v");
  }
  /// y, dq, dk and dv.
  std::vector<Tensor> results() const {
    const AttentionMask mask{sizes.causal, lengths_of(sizes.query_lengths), lengths_of(sizes.key_lengths)};
    const AttentionResult result = attention_forward(q, k, v, mask);
    const Tensor dq = empty(q.shape(), q.dtype()), dk = empty(k.shape(), q.dtype()), dv = empty(k.shape(), q.dtype());
    attention_backward(q, k, v, result, dy, mask, dq, dk, dv);
    return {result.y, dq, dk, dv};
  }
  Sizes sizes;
  Tensor q, k, v, dy;
};

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

constexpr const char* kNames[] = {"y", "dq", "dk", "dv"};

// Rows around the borders of panels and blocks, widths that are and are no multiples of a tile's, one query after many keys.
const Sizes kSizes[] = {{1, 1, 1, 1, 1, 8, false},
                        {2, 33, 33, 2, 2, 64, true},
                        {1, 256, 256, 2, 2, 64, true},
                        {1, 300, 300, 2, 1, 80, true},
                        {2, 70, 290, 4, 2, 40, false},
                        {1, 1, 300, 2, 1, 128, true},
                        {1, 47, 560, 1, 1, 17, true},
                        {1, 48, 16, 3, 3, 96, false},
                        {1, 65, 65, 2, 2, 256, true},
                        {3, 40, 290, 2, 2, 64, false, {40, 0, 17}, {290, 5, 257}},
                        {3, 50, 50, 2, 1, 32, true, {50, 0, 33}, {50, 0, 33}}};

TEST(AttentionOfBf16, IsThatOfF32ButForRounding) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(testing::Message() << sizes.queries << " queries, " << sizes.keys << " keys of " << sizes.width);
    const std::vector<Tensor> got = Attention(sizes).results(), expected = Attention(sizes, DType::f32).results();
    for (size_t i = 0; i < got.size(); ++i) {
      std::vector<double> values = got[i].to_vector();
      const std::vector<double> wanted = expected[i].to_vector();
      for (size_t j = 0; j < values.size(); ++j) {
        ASSERT_NEAR(values[j], wanted[j], 0.02 + 0.02 * std::abs(wanted[j])) << kNames[i] << ", element " << j;
        values[j] -= wanted[j];
      }
      // A number of bf16 is off by 2^-9 at most; a row that is left out or counted twice is more.
      EXPECT_LE(norm_of(values), 0.006 * norm_of(wanted) + 1e-6) << kNames[i];
    }
  }
}

TEST(AttentionOfBf16, LeavesOutWhatPaddingHolds) {
  const Sizes sizes{2, 40, 290, 2, 1, 64, false, {33, 40}, {70, 257}};
  const Attention clean(sizes), dirty(sizes);
  const auto spoil = [](const Tensor& x, const std::vector<int32_t>& lengths) {
    for (int64_t sample = 0; sample < x.dim(0); ++sample) fill(x.slice(0, sample, sample + 1).slice(1, lengths[sample]), NAN);
  };
  for (const Tensor& x : {dirty.k, dirty.v}) spoil(x, sizes.key_lengths);
  for (const Tensor& x : {dirty.q, dirty.dy}) spoil(x, sizes.query_lengths);
  const auto expected = clean.results(), got = dirty.results();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].to_vector(), expected[i].to_vector()) << kNames[i];
}

/// So that micro-batches and batches of decoded sentences may be cut anywhere.
TEST(AttentionOfBf16, HasTheBitsOfASampleAlone) {
  const Sizes sizes{3, 50, 290, 2, 1, 64, true};
  const Attention all(sizes);
  const std::vector<Tensor> together = all.results();
  for (int64_t sample = 0; sample < sizes.samples; ++sample) {
    Attention one(all);
    for (Tensor* x : {&one.q, &one.k, &one.v, &one.dy}) *x = x->slice(0, sample, sample + 1);
    const std::vector<Tensor> alone = one.results();
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_EQ(alone[i].to_vector(), together[i].slice(0, sample, sample + 1).to_vector()) << kNames[i] << " of sample " << sample;
  }
}

/// A query's result does not depend on which queries are beside it, as a cache of keys and values needs.
TEST(AttentionOfBf16, HasTheBitsOfAQueryAlone) {
  const Sizes sizes{1, 300, 300, 2, 2, 64, true};
  const Attention all(sizes);
  const Tensor y = all.results()[0];
  for (const int64_t query : {0, 1, 31, 32, 63, 255, 256, 299}) {
    const AttentionResult one =
        attention_forward(all.q.slice(1, query, query + 1), all.k.slice(1, 0, query + 1), all.v.slice(1, 0, query + 1), {true});
    EXPECT_EQ(one.y.to_vector(), y.slice(1, query, query + 1).to_vector()) << "query " << query;
  }
}

}  // namespace
}  // namespace sluice
