#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/normalization.h"
#include "core/ops/normalization.h"
#include "tests/ops/op_case.h"

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr double kEpsilon = 1e-5;

/// layer_norm of {x, gamma, beta}, rms_norm of {x, gamma}.
Values naive_norm(const std::vector<Tensor>& inputs) {
  Values y = inputs[0].to_vector();
  const Values gamma = inputs[1].to_vector();
  const bool centered = inputs.size() == 3;
  const Values beta = centered ? inputs[2].to_vector() : Values(gamma.size());
  const auto n = static_cast<int64_t>(gamma.size());
  for (auto row = y.begin(); row != y.end(); row += n) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; centered && i < n; ++i) mean += row[i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) row[i] = (row[i] - mean) / std::sqrt(variance + kEpsilon) * gamma[i] + beta[i];
  }
  return y;
}

/// sum + norm(sum) of {x, residual, gamma, ...}, so that both results are seen.
Values naive_sum_and_norm(const std::vector<Tensor>& inputs) {
  const Values x = inputs[0].to_vector(), residual = inputs[1].to_vector();
  Values sum(x.size());
  for (size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + residual[i];
  std::vector<Tensor> normalized{tensor_of(sum, inputs[0].shape(), DType::f64)};
  normalized.insert(normalized.end(), inputs.begin() + 2, inputs.end());
  Values y = naive_norm(normalized);
  for (size_t i = 0; i < y.size(); ++i) y[i] += sum[i];
  return y;
}
/// The difference, of any bit, between a gradient that is made with a sum of {dy, x, gamma, sum} and one that is added to it afterwards.
Var difference_with_a_sum(const std::vector<Var>& inputs, bool centered) {
  const Tensor &dy = inputs[0].value(), &x = inputs[1].value(), &gamma = inputs[2].value(), &sum = inputs[3].value();
  const NormalizedRows rows = centered ? layer_norm(x, gamma, gamma, kEpsilon) : rms_norm(x, gamma, kEpsilon);
  const auto gradient = [&](const Tensor& to) { return normalization_backward(dy, x, gamma, rows.mean, rows.rstd, {}, to).x; };
  return Var(scale(sub(gradient(sum), add(gradient({}), sum)), 1e30));
}

Var both(const NormalizedSum& results) { return add(results.sum, results.y); }

}  // namespace

OP_CASES(layer_norm) {
  const auto run = [](const std::vector<Var>& x) { return layer_norm(x[0], x[1], x[2], kEpsilon); };
  const auto with = [](InputSpec x, int64_t n) { return std::vector<InputSpec>{x, randn({n}), randn({n})}; };
  add({.name = "small", .inputs = with(randn({4, 7}), 7), .run = run, .expect = naive_norm});
  add({.name = "deep", .inputs = with(randn({2, 3, 33}), 33), .run = run, .expect = naive_norm});
  add({.name = "several_chunks", .inputs = with(randn({35, 4}), 4), .run = run, .expect = naive_norm});
  // Rows of more packs than a warp has threads, several a team and several chunks: read ahead of their use on a GPU.
  add({.name = "rows_ahead", .inputs = with(randn({9, 520}), 520), .run = run, .expect = naive_norm});
  add({.name = "long_row_ahead", .inputs = with(randn({1, 4104}), 4104), .run = run, .expect = naive_norm});  // by 512 threads
  add({.name = "vector", .inputs = with(randn({9}), 9), .run = run, .expect = naive_norm});
  add({.name = "one_column", .inputs = with(randn({3, 1}), 1), .run = run, .expect = naive_norm});
  add({.name = "no_rows", .inputs = with(randn({0, 5}), 5), .run = run, .expect = naive_norm});
  // Without gradients: central differences have no digits left beside such a mean. The mean itself is rounded to f32.
  add({.name = "all_equal", .inputs = with(constant({2, 9}, 1e4), 9), .run = run, .expect = naive_norm, .gradient = false});
  add({.name = "large_mean",
       .inputs = with(uniform({2, 40}, 1000, 1001), 40),
       .run = run,
       .expect = naive_norm,
       .gradient = false,
       .tolerance_scale = 20});
  add({.name = "view", .inputs = with(transposed(randn({5, 3}), 0, 1), 5), .run = run, .expect = naive_norm});
  add({.name = "misaligned", .inputs = {misaligned({3, 16}), randn({16}), misaligned({16})}, .run = run, .expect = naive_norm});
  add({.name = "no_columns", .inputs = with(randn({2, 0}), 0), .run = run, .throws = "non-empty last axis"});
  add({.name = "short_gamma", .inputs = {randn({2, 4}), randn({3}), randn({4})}, .run = run, .throws = "needs gamma f32 [4]"});
  add({.name = "long_beta", .inputs = {randn({2, 4}), randn({4}), randn({5})}, .run = run, .throws = "needs beta f32 [4]"});
  add({.name = "gpt", .inputs = with(randn({2048, 384}), 384), .run = run, .bench = true});
  add({.name = "wide", .inputs = with(randn({4096, 1024}), 1024), .run = run, .bench = true});
}

OP_CASES(rms_norm) {
  const auto run = [](const std::vector<Var>& x) { return rms_norm(x[0], x[1], kEpsilon); };
  const auto with = [](InputSpec x, int64_t n) { return std::vector<InputSpec>{x, randn({n})}; };
  add({.name = "small", .inputs = with(randn({4, 7}), 7), .run = run, .expect = naive_norm});
  add({.name = "deep", .inputs = with(randn({2, 3, 33}), 33), .run = run, .expect = naive_norm});
  add({.name = "several_chunks", .inputs = with(randn({35, 4}), 4), .run = run, .expect = naive_norm});
  add({.name = "one_column", .inputs = with(randn({3, 1}), 1), .run = run, .expect = naive_norm});
  add({.name = "no_rows", .inputs = with(randn({0, 5}), 5), .run = run, .expect = naive_norm});
  add({.name = "rows_ahead", .inputs = with(randn({9, 520}), 520), .run = run, .expect = naive_norm});
  add({.name = "zeros", .inputs = with(constant({2, 9}, 0), 9), .run = run, .expect = naive_norm, .gradient = false});
  add({.name = "view", .inputs = with(transposed(randn({5, 3}), 0, 1), 5), .run = run, .expect = naive_norm});
  add({.name = "misaligned", .inputs = with(misaligned({3, 16}), 16), .run = run, .expect = naive_norm});
  add({.name = "no_columns", .inputs = with(randn({2, 0}), 0), .run = run, .throws = "non-empty last axis"});
  add({.name = "short_gamma", .inputs = {randn({2, 4}), randn({3})}, .run = run, .throws = "needs gamma f32 [4]"});
  add({.name = "gpt", .inputs = with(randn({2048, 384}), 384), .run = run, .bench = true});
}

OP_CASES(add_layer_norm) {
  const auto run = [](const std::vector<Var>& x) { return both(add_layer_norm(x[0], x[1], x[2], x[3], kEpsilon)); };
  const auto with = [](InputSpec x, const Shape& shape, int64_t n) {
    return std::vector<InputSpec>{x, randn(shape), randn({n}), randn({n})};
  };
  add({.name = "small", .inputs = with(randn({4, 7}), {4, 7}, 7), .run = run, .expect = naive_sum_and_norm});
  add({.name = "packs", .inputs = with(randn({3, 16}), {3, 16}, 16), .run = run, .expect = naive_sum_and_norm});
  add({.name = "view", .inputs = with(transposed(randn({5, 3}), 0, 1), {3, 5}, 5), .run = run, .expect = naive_sum_and_norm});
  add({.name = "misaligned_residual",
       .inputs = {randn({3, 16}), misaligned({3, 16}), randn({16}), randn({16})},
       .run = run,
       .expect = naive_sum_and_norm});
  add({.name = "short_residual", .inputs = with(randn({2, 4}), {1, 4}, 4), .run = run, .throws = "needs a residual like x"});
  add({.name = "gpt", .inputs = with(randn({2048, 384}), {2048, 384}, 384), .run = run, .bench = true});
}

OP_CASES(add_rms_norm) {
  const auto run = [](const std::vector<Var>& x) { return both(add_rms_norm(x[0], x[1], x[2], kEpsilon)); };
  const auto with = [](const Shape& shape, int64_t n) { return std::vector<InputSpec>{randn(shape), randn(shape), randn({n})}; };
  add({.name = "small", .inputs = with({4, 7}, 7), .run = run, .expect = naive_sum_and_norm});
  add({.name = "packs", .inputs = with({3, 16}, 16), .run = run, .expect = naive_sum_and_norm});
  add({.name = "no_rows", .inputs = with({0, 5}, 5), .run = run, .expect = naive_sum_and_norm});
}

OP_CASES(normalization_backward) {
  const auto zeros = [](const std::vector<Tensor>& x) { return Values(static_cast<size_t>(x[0].elements())); };
  const auto with = [&](const std::string& name, InputSpec sum, const Shape& shape) {
    for (const bool centered : {true, false})
      add({.name = (centered ? "layer_norm_" : "rms_norm_") + name,
           .inputs = {randn(shape), randn(shape, 3), randn({shape[-1]}), sum},
           .run = [centered](const auto& x) { return difference_with_a_sum(x, centered); },
           .expect = zeros,
           .gradient = false});
  };
  with("sum", randn({4, 7}), {4, 7});
  with("sum_of_packs", randn({35, 48}), {35, 48});
  with("sum_of_several_packs", randn({3, 6000}), {3, 6000});
  with("sum_of_rows_too_long_for_registers", randn({3, 8208}), {3, 8208});
  with("sum_view", transposed(randn({16, 3}), 0, 1), {3, 16});
  with("sum_misaligned", misaligned({3, 16}), {3, 16});
  with("sum_of_no_rows", randn({0, 5}), {0, 5});
  add({.name = "short_sum",
       .inputs = {randn({2, 4}), randn({2, 4}), randn({4}), randn({1, 4})},
       .run = [](const auto& x) { return difference_with_a_sum(x, true); },
       .throws = "needs a sum like the gradient"});
}
