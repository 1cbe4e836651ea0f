#include <array>
#include <cmath>
#include <limits>

#include "autograd/ops/masked_attention.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The parts of a case's mask; those that are there are inputs after q, k and v, in this order.
struct Parts {
  bool causal = false, added = false, allowed = false, lengths = false;

  template <class X, class None>
  auto part(const std::vector<X>& x, int number, const None& none) const {
    const std::array<bool, 4> is_there{added, allowed, lengths, lengths};
    size_t at = 3;
    for (int i = 0; i < number; ++i) at += is_there[static_cast<size_t>(i)];
    return is_there[static_cast<size_t>(number)] ? x[at] : none;
  }
};

auto masked(const Parts& parts) {
  return [=](const std::vector<Var>& x) {
    const auto part = [&](int number) { return parts.part(x, number, Var()); };
    return masked_attention(x[0], x[1], x[2], {parts.causal, part(2).value(), part(3).value()}, part(0), part(1).value());
  };
}

/// An element of a mask [T, S], [B, T, S] or [B, H, T, S] with broadcasting; `otherwise` where there is none.
struct Pairs {
  Pairs(const Tensor& mask, double of_none) : otherwise(of_none) {
    if (!mask.defined()) return;
    values = mask.to_vector(), queries = mask.dim(-2), keys = mask.dim(-1);
    samples = mask.rank() > 2 ? mask.dim(0) : 1, heads = mask.rank() > 3 ? mask.dim(1) : 1;
  }
  double operator()(int64_t sample, int64_t head, int64_t query, int64_t key) const {
    if (values.empty()) return otherwise;
    return values[(((samples > 1 ? sample : 0) * heads + (heads > 1 ? head : 0)) * queries + query) * keys + key];
  }
  double otherwise;
  Values values;
  int64_t samples = 1, heads = 1, queries = 0, keys = 0;
};

/// Plain loops.
auto reference(const Parts& parts) {
  return [=](const std::vector<Tensor>& x) {
    const Tensor &q = x[0], &k = x[1], &v = x[2];
    const Values of_q = q.to_vector(), of_k = k.to_vector(), of_v = v.to_vector();
    const Pairs added(parts.part(x, 0, Tensor()), 0), allowed(parts.part(x, 1, Tensor()), 1);
    const auto lengths = [&](int number, int64_t all) {
      return parts.lengths ? parts.part(x, number, Tensor()).to_vector() : Values(q.dim(0), all);
    };
    const Values queries = lengths(2, q.dim(1)), keys = lengths(3, k.dim(1));
    const int64_t heads = q.dim(2), width = q.dim(3), group = heads / k.dim(2);
    Values y;
    for (int64_t b = 0; b < q.dim(0); ++b)
      for (int64_t t = 0; t < q.dim(1); ++t)
        for (int64_t h = 0; h < heads; ++h) {
          Values weights(k.dim(1)), result(width);
          double sum = 0;
          for (int64_t s = 0; s < k.dim(1); ++s) {
            const bool seen = static_cast<double>(t) < queries[b] && static_cast<double>(s) < keys[b] &&
                              (!parts.causal || s <= t + k.dim(1) - q.dim(1)) && allowed(b, h, t, s) != 0;
            double score = 0;
            for (int64_t i = 0; i < width; ++i)
              score += of_q[((b * q.dim(1) + t) * heads + h) * width + i] * of_k[((b * k.dim(1) + s) * k.dim(2) + h / group) * width + i];
            if (seen) sum += weights[s] = std::exp(score / std::sqrt(static_cast<double>(width)) + added(b, h, t, s));
          }
          for (int64_t s = 0; s < k.dim(1); ++s)
            for (int64_t i = 0; i < width; ++i)
              if (weights[s] > 0) result[i] += weights[s] / sum * of_v[((b * k.dim(1) + s) * k.dim(2) + h / group) * width + i];
          y.insert(y.end(), result.begin(), result.end());
        }
    return y;
  };
}

InputSpec lengths_of(const std::vector<double>& of_samples) {
  return {[=] { return tensor_of(of_samples, {static_cast<int64_t>(of_samples.size())}, DType::i32); }};
}

}  // namespace

OP_CASES(masked_attention) {
  const auto check = [&](const char* name, const Shape& q, const Shape& k, const Parts& parts, std::vector<InputSpec> masks) {
    std::vector<InputSpec> inputs{randn(q), randn(k), randn(k)};
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    add({.name = name, .inputs = inputs, .run = masked(parts), .expect = reference(parts), .tolerance_scale = 2});
  };
  const Shape x{2, 3, 4, 5}, memory{2, 6, 4, 5}, shared{2, 6, 2, 5};
  const auto bits = [](const Shape& shape) { return indices(shape, 2, DType::u8); };
  check("without_a_mask", x, memory, {}, {});
  check("added_for_all", x, memory, {.added = true}, {randn({3, 6})});
  check("added_for_samples", x, memory, {.added = true}, {randn({2, 3, 6})});
  check("added_for_heads", x, memory, {.added = true}, {randn({1, 4, 3, 6})});
  check("added_for_each", x, memory, {.added = true}, {randn({2, 4, 3, 6})});
  check("added_for_samples_of_all_heads", x, memory, {.added = true}, {randn({2, 1, 3, 6})});
  check("added_view", x, memory, {.added = true}, {transposed(randn({6, 3}), 0, 1)});
  check("allowed_for_all", x, memory, {.allowed = true}, {bits({3, 6})});
  check("allowed_for_samples", x, memory, {.allowed = true}, {bits({2, 3, 6})});
  check("allowed_for_each", x, memory, {.allowed = true}, {bits({2, 4, 3, 6})});
  check("allowed_view", x, memory, {.allowed = true}, {transposed(bits({6, 3}), 0, 1)});
  check("both", x, memory, {.added = true, .allowed = true}, {randn({1, 4, 3, 6}), bits({2, 3, 6})});
  check("grouped_heads", x, shared, {.added = true, .allowed = true}, {randn({2, 4, 3, 6}), bits({3, 6})});
  check("causal", x, shared, {.causal = true, .added = true}, {randn({3, 6})});
  check("lengths", x, shared, {.added = true, .lengths = true}, {randn({3, 6}), lengths_of({2, 3}), lengths_of({6, 0})});
  check("everything", x, memory, {true, true, true, true}, {randn({1, 4, 3, 6}), bits({2, 3, 6}), lengths_of({3, 1}), lengths_of({4, 6})});
  check("rows_that_see_nothing", x, memory, {.allowed = true}, {indices({3, 6}, 1, DType::u8)});
  check("infinite", {1, 2, 1, 3}, {1, 3, 1, 3}, {.added = true},
        {values({2, 3}, {-kInfinity, 0.5, -kInfinity, -kInfinity, -kInfinity, -kInfinity})});
  check("views", x, x, {.added = true}, {randn({3, 3})});
  check("no_samples", {0, 3, 2, 4}, {0, 3, 2, 4}, {.added = true}, {randn({3, 3})});
  check("no_queries", {2, 0, 2, 4}, {2, 3, 2, 4}, {.added = true}, {randn({0, 3})});
  check("one", {1, 1, 1, 1}, {1, 1, 1, 1}, {.added = true}, {randn({1, 1})});
  add({.name = "strided",
       .inputs = {transposed(randn({2, 4, 3, 5}), 1, 2), sliced(randn({2, 8, 4, 5}), 1, 1, 7), sliced(randn({2, 6, 4, 8}), 3, 2, 7),
                  randn({3, 6})},
       .run = masked({.added = true}),
       .expect = reference({.added = true}),
       .tolerance_scale = 2});

  const auto refuse = [&](const char* name, const Parts& parts, std::vector<InputSpec> masks, const char* message) {
    std::vector<InputSpec> inputs{randn(x), randn(memory), randn(memory)};
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    add({.name = name, .inputs = inputs, .run = masked(parts), .throws = message});
  };
  refuse("other_pairs", {.added = true}, {randn({6, 3})}, "needs an added mask [3, 6], [2, 3, 6] or [2, 4, 3, 6], got [6, 3]");
  refuse("other_samples", {.allowed = true}, {bits({3, 3, 6})}, "needs allowed pairs [3, 6]");
  refuse("other_heads", {.added = true}, {randn({2, 3, 3, 6})}, "got [2, 3, 3, 6]");
  refuse("allowed_of_floats", {.allowed = true}, {randn({3, 6})}, "needs allowed pairs in u8");
  refuse("added_of_integers", {.added = true}, {bits({3, 6})}, "needs an added mask of floats");
  refuse("lengths_of_more", {.lengths = true}, {lengths_of({1, 2, 3}), lengths_of({1, 2, 3})}, "needs lengths i32 [2]");
  add({.name = "widths",
       .inputs = {randn(x), randn({2, 6, 4, 4}), randn({2, 6, 4, 4})},
       .run = masked({}),
       .throws = "needs q [B, T, H, N]"});
  add({.name = "heads",
       .inputs = {randn(x), randn({2, 6, 3, 5}), randn({2, 6, 3, 5})},
       .run = masked({}),
       .throws = "divide the query heads"});
  add({.name = "causal_without_keys",
       .inputs = {randn(memory), randn(x), randn(x)},
       .run = masked({.causal = true}),
       .throws = "as many keys"});
  add({.name = "gpt",
       .inputs = {randn({8, 256, 6, 64}), randn({8, 256, 6, 64}), randn({8, 256, 6, 64}), randn({6, 256, 256})},
       .run =
           [](const std::vector<Var>& x) {
             return masked_attention(x[0], x[1], x[2], {.causal = true}, x[3].value().reshape({1, 6, 256, 256}));
           },
       .bench = true});
}
