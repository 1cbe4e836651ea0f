// A chain of a million nodes: freeing it once took a call within a call for every node, which overflows the stack.
#include <gtest/gtest.h>

#include "autograd/backward.h"
#include "autograd/ops/reshape.h"

namespace sluice {
namespace {

constexpr int kNodes = 1'000'000;

Var chain_on(const Var& leaf) {
  Var x = leaf;
  for (int i = 0; i < kNodes; ++i) x = reshape(x, i % 2 ? Shape{2} : Shape{1, 2});
  return x;
}

TEST(LongChain, IsFreedWithoutABackward) {
  const Var leaf = Var::input(full({2}, 1));
  { const Var end = chain_on(leaf); }
  EXPECT_EQ(leaf.node().use_count(), 1);
}

TEST(LongChain, PassesAGradientToItsBeginning) {
  const Var leaf = Var::input(full({2}, 1));
  EXPECT_EQ(gradients(chain_on(leaf), full({2}, 3), {leaf})[0].to_vector(), (std::vector<double>{3, 3}));
  EXPECT_EQ(leaf.node().use_count(), 1);
}

}  // namespace
}  // namespace sluice
