// The backward function of an op from outside the library: what it returns was taken unseen, and one that returned too few crashed.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/elementwise.h"
#include "core/ops/elementwise.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

/// The gradients of an op of two inputs [2, 3] whose backward function is `function`.
void run(BackwardFunction function, bool first_is_constant = false) {
  const Tensor x = full({2, 3}, 1), w = full({2, 3}, 2);
  const Var a = first_is_constant ? Var(x) : scale(Var::input(x), 2), b = Var::parameter(w);
  gradients(record("outside_op", mul(x, w), {a, b}, {}, {}, function), full({2, 3}, 1), {b});
}

TEST(OutsideBackwardFunction, WithAGradientOfTheWrongShapeIsRefusedWithOpAndInput) {
  const auto wrong = [](const Node&, const Tensor& dy, Needs) { return Gradients{dy, full({3}, 1)}; };
  expect_error<UsageError>([&] { run(wrong); }, {"outside_op", "input 1", "[2, 3]", "[3]"});
}

TEST(OutsideBackwardFunction, WithTooFewGradientsIsRefusedWithOpAndInput) {
  const auto too_few = [](const Node&, const Tensor& dy, Needs) { return Gradients{dy}; };
  expect_error<UsageError>([&] { run(too_few); }, {"outside_op", "input 1", "[2, 3]"});
}

TEST(OutsideBackwardFunction, WithoutAGradientThatWasAskedForIsRefusedWithOpAndInput) {
  const auto none = [](const Node&, const Tensor& dy, Needs) { return Gradients{Tensor(), dy}; };
  expect_error<UsageError>([&] { run(none); }, {"outside_op", "input 0", "undefined"});
  EXPECT_NO_THROW(run(none, true)) << "nobody asked for the first one";
}

TEST(OutsideBackwardFunction, WithAGradientOnAnotherDeviceIsRefusedWithBoth) {
  const auto elsewhere = [](const Node&, const Tensor& dy, Needs) { return Gradients{dy, dy.to(make_device("cpu:3"))}; };
  expect_error<UsageError>([&] { run(elsewhere); }, {"outside_op", "input 1", "cpu:0", "cpu:3"});
}

}  // namespace
}  // namespace sluice
