#include "core/cpu/cpu.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/ops/activation.h"
#include "core/ops/copy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/ops/sums_of_squares.h"

namespace sluice {
namespace {

TEST(ParallelFor, VisitsEveryItemOnce) {
  Cpu cpu(3);
  for (int64_t items : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> visits(items);
    cpu.parallel_for(items, 7, [&](int64_t begin, int64_t end) {
      EXPECT_LE(end - begin, 7);
      for (int64_t i = begin; i < end; ++i) ++visits[i];
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelFor, RethrowsAFailureOfAnyThreadAndGoesOn) {
  Cpu cpu(3);
  const auto fail_at_40 = [](int64_t begin, int64_t) { require(begin != 40, "chunk 40"); };
  EXPECT_THROW(cpu.parallel_for(100, 1, fail_at_40), UsageError);
  std::atomic<int64_t> sum{0};
  cpu.parallel_for(100, 1, [&](int64_t begin, int64_t) { sum += begin; });
  EXPECT_EQ(sum, 4950);
}

/// The results of `compute` on the same large input, for 1 and for 3 threads.
void expect_same_bits(std::vector<Tensor> (*compute)(const Tensor& x)) {
  std::vector<std::vector<double>> first;
  for (int threads : {1, 3}) {
    const Tensor x = empty({301, 517}, DType::f32, make_device("cpu:0", {.threads = threads}));
    fill_normal(x, 0, 1, 5);
    std::vector<std::vector<double>> results;
    for (const Tensor& y : compute(x)) results.push_back(y.to_vector());
    if (threads == 1)
      first = results;
    else
      EXPECT_EQ(results, first);
  }
}

TEST(Threads, DoNotChangeTheBitsOfReductions) {
  expect_same_bits([](const Tensor& x) { return std::vector{sum(x), sum(x, {0}), sum(x, {1}), max(x), sum_of_squares(x)}; });
}

TEST(Threads, DoNotChangeTheBitsOfElementwiseOps) {
  expect_same_bits([](const Tensor& x) {
    const RandomStream stream{.key = 3};
    return std::vector{gelu(x), add(x, x.slice(0, 0, 1)), dropout(x, 0.1, stream), dropout_add(x, x, 0.1, stream), mul_silu(x, x)};
  });
}

TEST(Threads, DoNotChangeTheBitsOfBiasGradients) {
  expect_same_bits([](const Tensor& x) {
    const auto [dx, dbias] = bias_activation_backward(Unary::GeluTanh, x, x.slice(0, 0, 1).reshape({517}), x, true, true);
    return std::vector{dx, dbias};
  });
}

}  // namespace
}  // namespace sluice
