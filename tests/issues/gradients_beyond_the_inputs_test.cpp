// A backward function that returned more gradients than its op has inputs was believed: one that was recorded without its last input lost
// that gradient and said nothing.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/reduction.h"
#include "core/ops/elementwise.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// x * w, of which only x is recorded.
Var product(const Var& x, const Var& w, BackwardFunction backward) {
  return record("product", mul(x.value(), w.value()), {x}, {}, {}, backward);
}

TEST(GradientsBeyondTheInputs, AreRefused) {
  const Var x = Var::parameter(full({2}, 3)), w = Var::parameter(full({2}, 5));
  const Var loss = sum(product(x, w, [](const Node&, const Tensor& dy, Needs) { return Gradients{dy, dy}; }));
  expect_error<UsageError>([&] { gradients(loss, {x, w}); }, {"product", "each of its 1 inputs", "returned 2", "record()"});
}

TEST(GradientsBeyondTheInputs, MayBeUndefined) {
  const Var x = Var::parameter(full({2}, 3)), w = Var::parameter(full({2}, 5));
  const Var loss = sum(product(x, w, [](const Node&, const Tensor& dy, Needs) { return Gradients{dy, Tensor()}; }));
  EXPECT_EQ(gradients(loss, {x})[0].to_vector(), std::vector<double>({1, 1}));
}

}  // namespace
}  // namespace sluice
