#include <cmath>
#include <limits>

#include "autograd/ops/attention.h"
#include "core/ops/concat.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

/// The lengths of queries and keys are two more inputs, or none.
AttentionMask mask_of(const std::vector<Var>& x, size_t tensors, bool causal) {
  if (x.size() == tensors) return {causal};
  return {causal, x[tensors].value(), x[tensors + 1].value()};
}

auto attended(bool causal) {
  return [=](const std::vector<Var>& x) { return attention(x[0], x[1], x[2], mask_of(x, 3, causal)); };
}

auto packed(int64_t heads, bool causal) {
  return [=](const std::vector<Var>& x) { return attention_packed(x[0], heads, mask_of(x, 1, causal)); };
}

/// [B, T, H, N] of which the rows from each sample's length on are NaN.
InputSpec padded(const Shape& shape, const std::vector<double>& of_samples) {
  return {[=, inner = randn(shape)] {
    std::vector<double> all = inner.make().to_vector();
    const int64_t row = shape[2] * shape[3];
    for (int64_t sample = 0; sample < shape[0]; ++sample)
      for (int64_t i = static_cast<int64_t>(of_samples[sample]) * row; i < shape[1] * row; ++i)
        all[sample * shape[1] * row + i] = std::numeric_limits<double>::quiet_NaN();
    return tensor_of(all, shape, DType::f64);
  }};
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

/// How many keys a query of these tensors sees, given their lengths or none.
class Seen {
 public:
  Seen(const std::vector<Tensor>& x, size_t tensors, bool causal, const Heads& q, const Heads& k)
      : causal_(causal),
        queries_(q.shape[1]),
        keys_(k.shape[1]),
        query_lengths_(x.size() > tensors ? x[tensors].to_vector() : Values(q.shape[0], queries_)),
        key_lengths_(x.size() > tensors ? x[tensors + 1].to_vector() : Values(q.shape[0], keys_)) {}
  int64_t operator()(int64_t sample, int64_t row) const {
    if (static_cast<double>(row) >= query_lengths_[sample]) return 0;
    return std::min(causal_ ? row + keys_ - queries_ + 1 : keys_, static_cast<int64_t>(key_lengths_[sample]));
  }

 private:
  bool causal_;
  int64_t queries_, keys_;
  Values query_lengths_, key_lengths_;
};

/// Plain loops with the whole row of weights at hand.
auto reference(bool causal) {
  return [=](const std::vector<Tensor>& x) {
    const Heads q(x[0]), k(x[1]), v(x[2]);
    const Seen seen_by(x, 3, causal, q, k);
    const int64_t queries = q.shape[1], width = q.shape[3];
    Values y;
    for (int64_t sample = 0; sample < q.shape[0]; ++sample)
      for (int64_t row = 0; row < queries; ++row)
        for (int64_t head = 0; head < q.shape[2]; ++head) {
          const int64_t source = head / (q.shape[2] / k.shape[2]), seen = seen_by(sample, row);
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
    std::vector<Tensor> parts{all.slice(2, 0, heads), all.slice(2, heads, 2 * heads), all.slice(2, 2 * heads, 3 * heads)};
    parts.insert(parts.end(), x.begin() + 1, x.end());
    return reference(causal)(parts);
  };
}

/// Gradients by plain loops from q, k, v and dy: those of q, k and v one after the other.
auto reference_gradients(bool causal) {
  return [=](const std::vector<Tensor>& x) {
    const Heads q(x[0]), k(x[1]), v(x[2]), dy(x[3]);
    const Seen seen_by(x, 4, causal, q, k);
    const int64_t queries = q.shape[1], keys = k.shape[1], heads = q.shape[2], sources = k.shape[2], width = q.shape[3];
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    Values dq(q.values.size()), dk(k.values.size()), dv(v.values.size());
    const auto dot = [&](const Heads& a, int64_t row, int64_t head, const Heads& b, int64_t other, int64_t source, int64_t sample) {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += a(sample, row, head, i) * b(sample, other, source, i);
      return sum;
    };
    for (int64_t sample = 0; sample < q.shape[0]; ++sample)
      for (int64_t row = 0; row < queries; ++row)
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t source = head / (heads / sources), seen = seen_by(sample, row);
          Values weights(seen), dweights(seen);
          double sum = 0, mean = 0;
          for (int64_t key = 0; key < seen; ++key) sum += weights[key] = std::exp(scale * dot(q, row, head, k, key, source, sample));
          for (int64_t key = 0; key < seen; ++key)
            mean += (weights[key] /= sum) * (dweights[key] = dot(dy, row, head, v, key, source, sample));
          for (int64_t key = 0; key < seen; ++key) {
            const double dscore = scale * weights[key] * (dweights[key] - mean);
            const int64_t at_query = ((sample * queries + row) * heads + head) * width,
                          at_key = ((sample * keys + key) * sources + source) * width;
            for (int64_t i = 0; i < width; ++i) {
              dq[at_query + i] += dscore * k.values[at_key + i];
              dk[at_key + i] += dscore * q.values[at_query + i];
              dv[at_key + i] += weights[key] * dy.values[at_query + i];
            }
          }
        }
    dq.insert(dq.end(), dk.begin(), dk.end());
    dq.insert(dq.end(), dv.begin(), dv.end());
    return dq;
  };
}

/// The same by the op, where dk and dv lie side by side in rows of one tensor, as for packed heads.
auto gradients(bool causal) {
  return [=](const std::vector<Var>& x) {
    const Tensor &q = x[0].value(), &k = x[1].value(), &v = x[2].value(), dq = empty_like(q);
    const AttentionMask mask = mask_of(x, 4, causal);
    const int64_t heads = k.dim(2);
    const Tensor dkv = empty({k.dim(0), k.dim(1), 2 * heads, k.dim(3)}, k.dtype(), k.device_ptr());
    const Tensor dk = dkv.slice(2, 0, heads), dv = dkv.slice(2, heads, 2 * heads);
    attention_backward(q, k, v, attention_forward(q, k, v, mask), x[3].value(), mask, dq, dk, dv);
    std::vector<Tensor> flat;
    for (const Tensor& gradient : {dq, dk, dv}) flat.push_back(gradient.contiguous().reshape({gradient.elements()}));
    return Var(concat(flat, 0));
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

  // Widths of the kernels for tensor cores (bf16 on CUDA), and rows around the borders of their tiles.
  self("width_64_below_a_tile", {1, 63, 2, 64}, true, false);
  self("width_64_beyond_a_tile", {2, 65, 1, 64}, false, false);
  self("width_64_beyond_two_tiles", {1, 130, 1, 64}, true, false);
  self("width_128_of_a_tile", {1, 64, 1, 128}, true, false);
  self("width_128_beyond_two_tiles", {1, 130, 1, 128}, true, false);
  self("width_40", {1, 65, 2, 40}, true, false);
  self("width_72", {1, 65, 1, 72}, true, false);
  self("width_80_beyond_two_tiles", {1, 130, 1, 80}, true, false);
  self("width_96", {1, 33, 1, 96}, false, false);
  self("width_96_beyond_two_tiles", {1, 130, 1, 96}, true, false);
  self("width_136", {1, 20, 1, 136}, true, false);
  self("width_256_below_a_tile", {1, 63, 1, 256}, true, false);
  self("width_256_beyond_two_tiles", {1, 130, 1, 256}, true, false);
  self("width_of_several_tiles", {1, 20, 1, 264}, true, false);
  check("width_80_cross", randn({1, 70, 2, 80}), randn({1, 63, 1, 80}), randn({1, 63, 1, 80}), false, false);
  check("width_256_grouped_cache", randn({1, 65, 4, 256}), randn({1, 70, 2, 256}), randn({1, 70, 2, 256}), true, false);
  check("width_64_grouped_cache", randn({2, 65, 4, 64}), randn({2, 130, 2, 64}), randn({2, 130, 2, 64}), true, false);
  check("width_128_cross", randn({1, 130, 2, 128}), randn({1, 63, 1, 128}), randn({1, 63, 1, 128}), false, false);
  check("width_64_large_scores", randn({1, 70, 1, 64}, 30), randn({1, 70, 1, 64}, 3), randn({1, 70, 1, 64}), true, false);

  const auto with_lengths = [&](const char* name, const Shape& q, const Shape& k, const std::vector<double>& of_queries,
                                const std::vector<double>& of_keys, bool causal, bool gradient = true) {
    add({.name = name,
         .inputs = {randn(q), randn(k), randn(k), lengths(of_queries), lengths(of_keys)},
         .run = attended(causal),
         .expect = reference(causal),
         .gradient = gradient,
         .tolerance_scale = 2});
  };
  with_lengths("lengths", {4, 5, 2, 3}, {4, 5, 2, 3}, {5, 0, 1, 3}, {5, 2, 4, 1}, false);
  with_lengths("causal_lengths", {4, 5, 2, 3}, {4, 5, 2, 3}, {5, 0, 1, 3}, {5, 2, 4, 1}, true);
  with_lengths("lengths_without_keys", {3, 3, 2, 2}, {3, 4, 2, 2}, {3, 2, 1}, {0, 4, 0}, false);
  with_lengths("lengths_of_grouped_heads", {2, 3, 4, 2}, {2, 7, 2, 2}, {2, 3}, {5, 6}, true);
  with_lengths("lengths_of_no_samples", {0, 4, 2, 3}, {0, 4, 2, 3}, {}, {}, true);
  with_lengths("lengths_beyond_a_block", {2, 70, 1, 8}, {2, 300, 1, 8}, {33, 70}, {257, 41}, false, false);
  with_lengths("width_64_lengths", {3, 130, 2, 64}, {3, 130, 1, 64}, {130, 64, 7}, {100, 130, 65}, false, false);
  with_lengths("width_128_causal_lengths", {3, 130, 1, 128}, {3, 130, 1, 128}, {130, 65, 1}, {64, 130, 0}, true, false);
  with_lengths("width_96_lengths", {2, 130, 2, 96}, {2, 65, 1, 96}, {130, 7}, {65, 30}, false, false);
  with_lengths("width_256_causal_lengths", {3, 70, 1, 256}, {3, 70, 1, 256}, {70, 65, 1}, {64, 70, 0}, true, false);
  add({.name = "never_reads_padding",
       .inputs = {padded({3, 70, 1, 64}, {70, 3, 0}), padded({3, 130, 1, 64}, {65, 130, 0}), padded({3, 130, 1, 64}, {65, 130, 0}),
                  lengths({70, 3, 0}), lengths({65, 130, 0})},
       .run = attended(false),
       .expect = reference(false),
       .gradient = false,
       .tolerance_scale = 2});

  const auto refuse_lengths = [&](const char* name, InputSpec of_queries, InputSpec of_keys, const char* message) {
    const Shape shape{2, 3, 1, 2};
    add({.name = name,
         .inputs = {randn(shape), randn(shape), randn(shape), of_queries, of_keys},
         .run = attended(false),
         .throws = message});
  };
  refuse_lengths("too_many_queries", lengths({3, 4}), lengths({3, 3}), "query lengths in [0, 4), got 4 of sample 1");
  refuse_lengths("negative_length", lengths({3, 3}), lengths({-1, 3}), "key lengths in [0, 4), got -1 of sample 0");
  refuse_lengths("lengths_of_more_samples", lengths({3, 3, 3}), lengths({3, 3}), "query lengths i32 [2]");
  refuse_lengths("lengths_as_i64", lengths({3, 3}), indices({2}, 3, DType::i64), "key lengths i32 [2]");

  const auto refuse = [&](const char* name, const Shape& q, const Shape& k, const char* message) {
    add({.name = name, .inputs = {randn(q), randn(k), randn(k)}, .run = attended(true), .throws = message});
  };
  refuse("rank", {2, 3, 4}, {2, 3, 4}, "needs q [B, T, H, N]");
  refuse("widths", {1, 3, 2, 4}, {1, 3, 2, 5}, "equal samples and head widths");
  refuse("heads", {1, 3, 3, 4}, {1, 3, 2, 4}, "key heads that divide the query heads");
  refuse("causal_without_keys", {1, 3, 2, 4}, {1, 2, 2, 4}, "at least as many keys as queries");
}

// Gradients as values, for sizes that central differences cannot serve.
OP_CASES(attention_gradients) {
  const auto check = [&](const char* name, const Shape& q, const Shape& k, bool causal) {
    add({.name = name,
         .inputs = {randn(q), randn(k), randn(k), randn(q)},
         .run = gradients(causal),
         .expect = reference_gradients(causal),
         .gradient = false,
         .tolerance_scale = 4});
  };
  const auto self = [&](const char* name, const Shape& shape, bool causal) { check(name, shape, shape, causal); };
  self("small", {2, 5, 2, 3}, true);
  self("width_64_below_a_tile", {1, 63, 2, 64}, true);
  self("width_64_beyond_a_tile", {2, 65, 1, 64}, false);
  self("width_64_beyond_two_tiles", {1, 130, 1, 64}, true);
  self("width_64_of_several_steps", {1, 400, 1, 64}, true);
  self("width_128_of_a_tile", {1, 64, 1, 128}, true);
  self("width_128_beyond_two_tiles", {1, 130, 1, 128}, true);
  self("width_128_of_several_steps", {1, 300, 1, 128}, false);
  self("width_40", {1, 65, 2, 40}, true);
  self("width_72", {1, 65, 1, 72}, true);
  self("width_80_beyond_two_tiles", {1, 130, 1, 80}, true);
  self("width_96_beyond_two_tiles", {1, 130, 1, 96}, true);
  self("width_136", {1, 20, 1, 136}, true);
  self("width_256_of_a_tile", {1, 64, 1, 256}, true);
  self("width_256_beyond_two_tiles", {1, 130, 1, 256}, false);
  self("width_of_several_tiles", {1, 20, 1, 264}, true);
  check("width_80_grouped_cache", {1, 33, 4, 80}, {1, 150, 2, 80}, true);
  check("width_256_grouped_cache", {1, 33, 4, 256}, {1, 70, 1, 256}, true);
  check("width_64_grouped_cache", {2, 65, 4, 64}, {2, 130, 2, 64}, true);
  check("width_128_grouped_cache", {1, 33, 4, 128}, {1, 150, 1, 128}, true);
  check("width_128_cross", {1, 130, 2, 128}, {1, 63, 1, 128}, false);
  check("no_queries", {1, 0, 2, 64}, {1, 70, 2, 64}, true);

  // Padding is NaN, so that it is read nowhere, and its gradients are zeros.
  const auto with_lengths = [&](const char* name, const Shape& q, const Shape& k, const std::vector<double>& of_queries,
                                const std::vector<double>& of_keys, bool causal) {
    add({.name = name,
         .inputs = {padded(q, of_queries), padded(k, of_keys), padded(k, of_keys), padded(q, of_queries), lengths(of_queries),
                    lengths(of_keys)},
         .run = gradients(causal),
         .expect = reference_gradients(causal),
         .gradient = false,
         .tolerance_scale = 4});
  };
  with_lengths("lengths", {4, 5, 2, 3}, {4, 7, 1, 3}, {5, 0, 1, 3}, {7, 2, 0, 1}, false);
  with_lengths("causal_lengths", {4, 5, 2, 3}, {4, 5, 2, 3}, {5, 0, 1, 3}, {5, 2, 4, 1}, true);
  with_lengths("width_64_lengths", {3, 130, 2, 64}, {3, 130, 1, 64}, {130, 64, 7}, {100, 130, 65}, false);
  with_lengths("width_64_causal_lengths", {3, 130, 2, 64}, {3, 130, 2, 64}, {130, 64, 7}, {100, 130, 7}, true);
  with_lengths("width_128_causal_lengths", {3, 130, 1, 128}, {3, 130, 1, 128}, {130, 65, 1}, {64, 130, 0}, true);
  with_lengths("width_80_causal_lengths", {3, 130, 1, 80}, {3, 130, 1, 80}, {130, 65, 1}, {64, 130, 0}, true);
  with_lengths("width_96_lengths", {2, 130, 2, 96}, {2, 65, 1, 96}, {130, 7}, {65, 30}, false);
  with_lengths("width_256_lengths", {3, 70, 2, 256}, {3, 66, 1, 256}, {70, 64, 7}, {66, 20, 65}, false);
  with_lengths("width_256_causal_lengths", {3, 70, 1, 256}, {3, 70, 1, 256}, {70, 65, 1}, {64, 70, 0}, true);
  with_lengths("lengths_beyond_a_block", {2, 70, 1, 8}, {2, 300, 1, 8}, {33, 70}, {257, 41}, false);
}

OP_CASES(cross_attention_packed) {
  const auto run = [](int64_t heads) {
    return [=](const std::vector<Var>& x) { return cross_attention_packed(x[0], x[1], heads, mask_of(x, 2, false)); };
  };
  const auto expect = [](int64_t heads) {
    return [=](const std::vector<Tensor>& x) {
      const auto part = [&](const Tensor& packed, int64_t i, int64_t parts) {
        return packed.reshape({packed.dim(0), packed.dim(1), parts * heads, packed.dim(2) / (parts * heads)})
            .slice(2, i * heads, (i + 1) * heads);
      };
      std::vector<Tensor> all{part(x[0], 0, 1), part(x[1], 0, 2), part(x[1], 1, 2)};
      all.insert(all.end(), x.begin() + 2, x.end());
      return reference(false)(all);
    };
  };
  const auto check = [&](const char* name, std::vector<InputSpec> inputs) {
    add({.name = name, .inputs = std::move(inputs), .run = run(2), .expect = expect(2), .tolerance_scale = 2});
  };
  check("plain", {randn({2, 3, 6}), randn({2, 5, 12})});
  check("lengths", {randn({3, 4, 6}), randn({3, 5, 12}), lengths({4, 2, 3}), lengths({2, 5, 0})});
  check("views", {transposed(randn({3, 2, 6}), 0, 1), transposed(randn({5, 2, 12}), 0, 1)});
  check("no_samples", {randn({0, 3, 6}), randn({0, 5, 12})});
  add({.name = "heads", .inputs = {randn({2, 3, 6}), randn({2, 5, 10})}, .run = run(2), .throws = "needs kv [B, T, 2 x heads x width]"});
  add({.name = "translation", .inputs = {randn({8, 128, 1024}), randn({8, 128, 2048})}, .run = run(16), .bench = true});
}

OP_CASES(attention_packed) {
  const auto check = [&](const char* name, InputSpec qkv, int64_t heads, bool causal) {
    add({.name = name, .inputs = {qkv}, .run = packed(heads, causal), .expect = packed_reference(heads, causal), .tolerance_scale = 2});
  };
  check("causal", randn({2, 5, 18}), 2, true);
  check("full", randn({2, 5, 18}), 3, false);
  check("view", transposed(randn({5, 2, 18}), 0, 1), 2, true);
  check("no_samples", randn({0, 5, 18}), 2, true);
  add({.name = "lengths",
       .inputs = {randn({3, 5, 18}), lengths({5, 2, 0}), lengths({5, 2, 0})},
       .run = packed(2, true),
       .expect = packed_reference(2, true),
       .tolerance_scale = 2});
  add({.name = "width_64",
       .inputs = {randn({2, 65, 384})},
       .run = packed(2, true),
       .expect = packed_reference(2, true),
       .gradient = false,
       .tolerance_scale = 2});
  add({.name = "heads", .inputs = {randn({2, 5, 18})}, .run = packed(4, true), .throws = "for 4 heads, got [2, 5, 18]"});
  add({.name = "gpt", .inputs = {randn({8, 256, 1152})}, .run = packed(6, true), .bench = true});
  add({.name = "gpt2", .inputs = {randn({8, 256, 2304})}, .run = packed(12, true), .bench = true});
  add({.name = "gpt2_1024_tokens", .inputs = {randn({2, 1024, 2304})}, .run = packed(12, true), .bench = true});
  add({.name = "full_1024_tokens", .inputs = {randn({2, 1024, 2304})}, .run = packed(12, false), .bench = true});
}
