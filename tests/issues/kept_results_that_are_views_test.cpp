// Bug: gradients read what the forward pass had left (softmax's y, the largest elements, places of a pool, means, row sums, log-sum-exps,
// activated gates) as if it were row-major, so a view of it gave other numbers without a word.
#include <gtest/gtest.h>

#include <cmath>

#include "core/elements.h"
#include "core/ops/attention.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/normalization.h"
#include "core/ops/pooling.h"
#include "core/ops/recurrent.h"
#include "core/ops/reduction.h"
#include "core/ops/softmax.h"
#include "core/random.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// Every other element of each axis of a larger tensor.
Tensor spread(const Tensor& x) {
  Shape shape = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis) shape = shape.with(axis, 2 * x.dim(axis));
  Tensor view = full(shape, is_floating(x.dtype()) ? NAN : 99, x.dtype());
  for (int axis = 0; axis < x.rank(); ++axis) view = view.slice(axis, 1, kEnd, 2);
  copy(x, view);
  return view;
}

void expect_same(const Tensor& of_view, const Tensor& of_copy) { EXPECT_EQ(of_view.to_vector(), of_copy.to_vector()); }

TEST(KeptResultsThatAreViews, GiveTheGradientsOfRows) {
  const Tensor x = randn({4, 6}, 1), dy = randn({4, 6}, 2), of_rows = randn({4, 1}, 3);
  const Tensor y = softmax(x), logarithms = log_softmax(x), largest = max(x, {1}, true);
  expect_same(softmax_backward(spread(y), dy), softmax_backward(y, dy));
  expect_same(log_softmax_backward(spread(logarithms), dy), log_softmax_backward(logarithms, dy));
  expect_same(max_backward(x, 1, spread(largest), of_rows), max_backward(x, 1, largest, of_rows));
}

TEST(KeptResultsThatAreViews, GiveTheGradientsOfNormsAndLosses) {
  const Tensor x = randn({4, 6}, 1), dy = randn({4, 6}, 2), gamma = randn({6}, 3), beta = randn({6}, 4);
  const NormalizedRows rows = layer_norm(x, gamma, beta, 1e-5);
  const auto of_view = normalization_backward(dy, x, gamma, spread(rows.mean), spread(rows.rstd), {});
  const auto of_copy = normalization_backward(dy, x, gamma, rows.mean, rows.rstd, {});
  expect_same(of_view.x, of_copy.x);
  expect_same(of_view.gamma, of_copy.gamma);

  const Tensor targets = tensor({1, 5, 0, 3}), one = tensor(1.0f), row_sums = cross_entropy(x, targets).row_sums;
  expect_same(cross_entropy_backward(one, x, targets, spread(row_sums), {}, 1), cross_entropy_backward(one, x, targets, row_sums, {}, 1));
}

TEST(KeptResultsThatAreViews, GiveTheGradientsOfPools) {
  const Window window{.size_h = 2, .size_w = 2, .stride_h = 2, .stride_w = 2};
  const Tensor x = randn({2, 4, 4, 3}, 1), dy = randn({2, 2, 2, 3}, 2), place = max_pool2d(x, window, true).place;
  expect_same(max_pool2d_backward(dy, spread(place), x.shape(), window), max_pool2d_backward(dy, place, x.shape(), window));
  expect_error<UsageError>([&] { max_pool2d_backward(dy, place.slice(0, 0, 1), x.shape(), window); }, {"needs the places u8 [2, 2, 2, 3]"});
}

TEST(KeptResultsThatAreViews, GiveTheGradientsOfAttention) {
  const Shape shape{2, 5, 2, 4};
  const Tensor q = randn(shape, 1), k = randn(shape, 2), v = randn(shape, 3), dy = randn(shape, 4);
  const AttentionResult result = attention_forward(q, k, v, {});
  const auto gradients = [&](const AttentionResult& kept) {
    const Tensor all = empty({3, 2, 5, 2, 4});
    attention_backward(q, k, v, kept, dy, {}, all[0], all[1], all[2]);
    return all;
  };
  expect_same(gradients({spread(result.y), spread(result.log_sum_exp)}), gradients(result));
}

TEST(KeptResultsThatAreViews, GiveTheGradientsOfRecurrentLayers) {
  const Tensor dy = randn({2, 3, 2}, 1), before = randn({2, 2}, 2), weight = randn({8, 2}, 3), of_gru = randn({6, 2}, 4);
  const LstmResult lstm = lstm_forward(randn({2, 3, 8}, 5), weight, {before, before});
  const LstmResult lstm_views{spread(lstm.y), spread(lstm.cells), spread(lstm.activated)};
  expect_same(lstm_backward(weight, {before, before}, lstm_views, dy, {}).gates,
              lstm_backward(weight, {before, before}, lstm, dy, {}).gates);

  const GruResult gru = gru_forward(randn({2, 3, 6}, 6), of_gru, randn({2}, 7), before);
  const GruResult gru_views{spread(gru.y), spread(gru.activated)};
  expect_same(gru_backward(of_gru, before, gru_views, dy, {}).gates, gru_backward(of_gru, before, gru, dy, {}).gates);
}

}  // namespace
}  // namespace sluice
