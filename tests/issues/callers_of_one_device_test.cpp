// Two threads of a program that computed on one device of several intra-op threads waited for ever: each took the other's job for its own.
#include <gtest/gtest.h>

#include <thread>

#include "core/device.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/random.h"

namespace sluice {
namespace {

TEST(CallersOfOneDevice, TakeTurns) {
  const auto device = devices("cpu:0", {.threads = 2})[0];
  const Tensor x = rand({1 << 17}, 1, DType::f64, device);
  const double expected = sum(exp(x)).item();
  std::vector<int> right(3);
  {
    std::vector<std::jthread> callers;
    for (int& count : right)
      callers.emplace_back([&] {
        for (int i = 0; i < 200; ++i) count += sum(exp(x)).item() == expected;
      });
  }
  EXPECT_EQ(right, (std::vector<int>{200, 200, 200}));
}

}  // namespace
}  // namespace sluice
