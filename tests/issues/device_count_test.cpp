// Costs are counted from any thread: several that fill tensors of one device lost some, a data race.
#include <gtest/gtest.h>

#include <thread>

#include "core/ops/copy.h"

namespace sluice {
namespace {

TEST(DeviceCount, HasEveryCostOfSeveralThreads) {
  constexpr int kThreads = 4, kTimes = 20'000;
  const auto device = make_device("meta:0", {.speed = {.flops_per_second = 1, .bytes_per_second = 1}});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) {
          device->count({3, 2, 1});
          const Cost so_far = device->counted();
          EXPECT_EQ(so_far.flops, 3 * so_far.bytes_written) << "a cost is counted as a whole";
        }
      });
  }
  const Cost all = device->counted();
  EXPECT_EQ(all.flops, 3.0 * kThreads * kTimes);
  EXPECT_EQ(all.bytes_read, 2.0 * kThreads * kTimes);
  EXPECT_EQ(all.bytes_written, 1.0 * kThreads * kTimes);
  EXPECT_EQ(device->clock_seconds(), 3.0 * kThreads * kTimes);
}

}  // namespace
}  // namespace sluice
