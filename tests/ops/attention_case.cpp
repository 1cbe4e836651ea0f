#include <cmath>

#include "autograd/ops/attention.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

auto attended(bool causal) {
  return [=](const std::vector<Var>& x) { return attention(x[0], x[1], x[2], causal); };
}

auto packed(int64_t heads, bool causal) {
  return [=](const std::vector<Var>& x) { return attention_packed(x[0], heads, causal); };
}

/// Elements of a [B, T, H, N] tensor.
struct Heads {
  explicit Heads(const Tensor& x) : shape(x.shape()), values(x.to_vector()) {}
  double operator()(int64_t sample, int64_t row, int64_t head, int64_t i) const {
    return values[((sample * shape[1] + row) * shape[2] + head) * shape[3] + i];
  }
  Shape shape;
  Values values;
};

/// Plain loops with the whole row of weights at hand.
auto reference(bool causal) {
  return [=](const std::vector<Tensor>& x) {
    const Heads q(x[0]), k(x[1]), v(x[2]);
    const int64_t queries = q.shape[1], keys = k.shape[1], width = q.shape[3];
    Values y;
    for (int64_t sample = 0; sample < q.shape[0]; ++sample)
      for (int64_t row = 0; row < queries; ++row)
        for (int64_t head = 0; head < q.shape[2]; ++head) {
          const int64_t source = head / (q.shape[2] / k.shape[2]), seen = causal ? row + keys - queries + 1 : keys;
          Values weights(seen);
          double sum = 0;
          for (int64_t key = 0; key < seen; ++key) {
            double score = 0;
            for (int64_t i = 0; i < width; ++i) score += q(sample, row, head, i) * k(sample, key, source, i);
            sum += weights[key] = std::exp(score / std::sqrt(static_cast<double>(width)));
          }
          for (int64_t i = 0; i < width; ++i) {
            double mean = 0;
            for (int64_t key = 0; key < seen; ++key) mean += weights[key] / sum * v(sample, key, source, i);
            y.push_back(mean);
          }
        }
    return y;
  };
}

/// The same from one packed tensor.
auto packed_reference(int64_t heads, bool causal) {
  return [=](const std::vector<Tensor>& x) {
    const Tensor all = x[0].reshape({x[0].dim(0), x[0].dim(1), 3 * heads, x[0].dim(2) / (3 * heads)});
    return reference(causal)({all.slice(2, 0, heads), all.slice(2, heads, 2 * heads), all.slice(2, 2 * heads, 3 * heads)});
  };
}

}  // namespace

OP_CASES(attention) {
  const auto check = [&](const char* name, InputSpec q, InputSpec k, InputSpec v, bool causal, bool gradient = true) {
    add({.name = name,
         .inputs = {q, k, v},
         .run = attended(causal),
         .expect = reference(causal),
         .gradient = gradient,
         .tolerance_scale = 2});
  };
  const auto self = [&](const char* name, const Shape& shape, bool causal, bool gradient = true) {
    check(name, randn(shape), randn(shape), randn(shape), causal, gradient);
  };
  self("full", {2, 5, 2, 3}, false);
  self("causal", {2, 5, 2, 3}, true);
  self("one_token", {2, 1, 2, 4}, true);
  self("width_of_one", {1, 4, 2, 1}, true);
  self("no_samples", {0, 4, 2, 3}, true);
  self("more_queries_than_a_block", {1, 37, 1, 2}, true);
  self("more_keys_than_a_block", {1, 300, 2, 20}, true, false);
  self("full_blocks", {1, 256, 1, 64}, true, false);
  check("fewer_queries", randn({1, 3, 2, 4}), randn({1, 7, 2, 4}), randn({1, 7, 2, 4}), true);
  check("one_query_of_a_cache", randn({2, 1, 2, 4}), randn({2, 9, 2, 4}), randn({2, 9, 2, 4}), true);
  check("cross", randn({1, 7, 1, 3}), randn({1, 4, 1, 3}), randn({1, 4, 1, 3}), false);
  check("long_cross", randn({1, 3, 1, 3}), randn({1, 290, 1, 3}), randn({1, 290, 1, 3}), true, false);
  check("grouped_heads", randn({2, 4, 6, 3}), randn({2, 4, 2, 3}), randn({2, 4, 2, 3}), true);
  check("no_queries", randn({1, 0, 2, 3}), randn({1, 4, 2, 3}), randn({1, 4, 2, 3}), true);
  check("views", transposed(randn({2, 2, 5, 3}), 1, 2), sliced(randn({2, 9, 2, 3}), 1, 2, 7), sliced(randn({2, 5, 2, 6}), 3, 1, 4), true);
  check("no_unit_stride", transposed(randn({1, 3, 2, 4}), 1, 3), transposed(randn({1, 3, 2, 4}), 1, 3),
        transposed(randn({1, 3, 2, 4}), 1, 3), true);
  check("large_scores", randn({1, 6, 1, 4}, 30), randn({1, 6, 1, 4}, 3), randn({1, 6, 1, 4}), true, false);

  const auto refuse = [&](const char* name, const Shape& q, const Shape& k, const char* message) {
    add({.name = name, .inputs = {randn(q), randn(k), randn(k)}, .run = attended(true), .throws = message});
  };
  refuse("rank", {2, 3, 4}, {2, 3, 4}, "needs q [B, T, H, N]");
  refuse("widths", {1, 3, 2, 4}, {1, 3, 2, 5}, "equal samples and head widths");
  refuse("heads", {1, 3, 3, 4}, {1, 3, 2, 4}, "key heads that divide the query heads");
  refuse("causal_without_keys", {1, 3, 2, 4}, {1, 2, 2, 4}, "at least as many keys as queries");
}

OP_CASES(attention_packed) {
  const auto check = [&](const char* name, InputSpec qkv, int64_t heads, bool causal) {
    add({.name = name, .inputs = {qkv}, .run = packed(heads, causal), .expect = packed_reference(heads, causal), .tolerance_scale = 2});
  };
  check("causal", randn({2, 5, 18}), 2, true);
  check("full", randn({2, 5, 18}), 3, false);
  check("view", transposed(randn({5, 2, 18}), 0, 1), 2, true);
  check("no_samples", randn({0, 5, 18}), 2, true);
  add({.name = "heads", .inputs = {randn({2, 5, 18})}, .run = packed(4, true), .throws = "for 4 heads, got [2, 5, 18]"});
  add({.name = "gpt", .inputs = {randn({8, 256, 1152})}, .run = packed(6, true), .bench = true});
  add({.name = "gpt2", .inputs = {randn({8, 256, 2304})}, .run = packed(12, true), .bench = true});
  add({.name = "gpt2_1024_tokens", .inputs = {randn({2, 1024, 2304})}, .run = packed(12, true), .bench = true});
  add({.name = "full_1024_tokens", .inputs = {randn({2, 1024, 2304})}, .run = packed(12, false), .bench = true});
}
