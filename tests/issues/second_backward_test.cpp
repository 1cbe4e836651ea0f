// A backward frees what the graph saved. A second one over a shared trunk once came back with undefined tensors.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reduction.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

Tensor numbers(const Shape& shape) {
  std::vector<double> elements;
  for (int64_t i = 0; i < shape.elements(); ++i) elements.push_back(static_cast<double>(i % 7) - 3);
  return tensor_of(elements, shape, DType::f64);
}

/// Two losses over one trunk.
struct TwoHeads {
  Var x = Var::input(numbers({4, 3})), w = Var::parameter(numbers({5, 3}));
  Var trunk = square(linear(x, w));
  Var first = sum(trunk), second = mean(exp(trunk));
  const Tensor one = full({}, 1, DType::f64);
};

TEST(SecondBackward, OverAFreedTrunkSaysWhichBackwardFreedItAndTheCure) {
  TwoHeads heads;
  gradients(heads.first, heads.one, {heads.x, heads.w});
  expect_error<UsageError>([&] { gradients(heads.second, heads.one, {heads.x, heads.w}); }, {"'unary'", "'sum'", "freed"});
}

TEST(SecondBackward, WorksAfterOneThatKeptWhatWasSaved) {
  TwoHeads once, kept;
  const auto both = [](const TwoHeads& heads) { return std::vector<Var>{heads.x, heads.w}; };
  const auto expected = gradients(once.second, once.one, both(once));
  const auto of_first = gradients(kept.first, kept.one, both(kept), Backward::Saved::kept);
  const auto of_second = gradients(kept.second, kept.one, both(kept), Backward::Saved::kept);
  const auto of_both = gradients(add(kept.first, kept.second), kept.one, both(kept));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(of_second[i].to_vector(), expected[i].to_vector());
    const auto a = of_first[i].to_vector(), b = of_second[i].to_vector(), sum = of_both[i].to_vector();
    for (size_t j = 0; j < sum.size(); ++j) EXPECT_NEAR(sum[j], a[j] + b[j], 1e-12);
  }
  expect_error<UsageError>([&] { gradients(kept.first, kept.one, both(kept)); }, {"freed"});
}

TEST(SecondBackward, SplitsAGraphThatIsKept) {
  TwoHeads heads;
  Backward split(heads.first, heads.one, Backward::Saved::kept);
  split.run_inputs();
  split.run_weights();
  const auto whole = gradients(heads.first, heads.one, {heads.x, heads.w});
  EXPECT_EQ(split.take(heads.x).to_vector(), whole[0].to_vector());
  EXPECT_EQ(split.take(heads.w).to_vector(), whole[1].to_vector());
}

TEST(SecondBackward, FindsLogitsThatAFirstOneCouldHaveOverwritten) {
  const Var x = Var::input(numbers({2, 3}));
  const Var loss = cross_entropy(scale(x, 2), tensor_of({2, 0}, {2}, DType::i32), {});
  const Tensor one = full({}, 1, DType::f64);
  const auto first = gradients(loss, one, {x}, Backward::Saved::kept)[0].to_vector();
  EXPECT_EQ(gradients(loss, one, {x})[0].to_vector(), first);
}

TEST(SecondBackward, OfKeptNodesFreesThemWithTheGraph) {
  const auto device = make_device("cpu:0");
  const Var x = Var::input(full({1024}, 1, DType::f32, device));
  {
    const Var y = exp(exp(x));
    const int64_t recorded = device->live_bytes();
    gradients(y, full({1024}, 1, DType::f32, device), {x}, Backward::Saved::kept);
    EXPECT_EQ(device->live_bytes(), recorded);
  }
  EXPECT_EQ(device->live_bytes(), 4096) << "only x is left";
}

TEST(SecondBackward, BetweenTheTwoPassesOfAFirstIsRefused) {
  TwoHeads heads;
  Backward backward(heads.first, heads.one);
  backward.run_inputs();
  expect_error<UsageError>([&] { gradients(heads.second, heads.one, {heads.w}); }, {"freed"});
  backward.run_weights();
  EXPECT_TRUE(backward.take(heads.w).defined());
}

TEST(SecondBackward, OfOneObjectIsRefused) {
  TwoHeads heads;
  Backward backward(heads.first, heads.one);
  backward.run();
  expect_error<UsageError>([&] { backward.run(); }, {"runs once"});
  expect_error<UsageError>([&] { backward.run_inputs(); }, {"runs once"});
}

}  // namespace
}  // namespace sluice
