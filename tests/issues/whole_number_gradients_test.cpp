// A backward function that returned a gradient of whole numbers was believed: it was rounded before, and cast without a word.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/reduction.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

TEST(WholeNumberGradients, AreRefused) {
  const Var x = Var::parameter(full({2}, 3));
  const auto backward = [](const Node&, const Tensor& dy, Needs) { return Gradients{cast(dy, DType::i32)}; };
  const Var loss = sum(record("twice", mul(x.value(), 2), {x}, {}, {}, backward));
  expect_error<UsageError>([&] { gradients(loss, {x}); }, {"backward of 'twice'", "a floating gradient [2]", "returned i32 [2]"});
}

}  // namespace
}  // namespace sluice
