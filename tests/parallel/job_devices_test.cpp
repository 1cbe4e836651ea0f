#include "parallel/run/job_devices.h"

#include <gtest/gtest.h>

#include "core/cuda/cuda.h"
#include "core/tensor.h"
#include "parallel/group/thread_group.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

using Gpus = std::vector<int>;

TEST(JobDevices, AreTheGpusOfTheirNamesOnOneHost) {
  EXPECT_EQ(gpus_of_hosts({0, 1, 2, 3}, {"a", "a", "a", "a"}), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(gpus_of_hosts({5, 2, 2}, {"a", "a", "a"}), (Gpus{5, 2, 2}));
}

TEST(JobDevices, BeginAnewOnEachHost) {
  EXPECT_EQ(gpus_of_hosts({0, 1, 2, 3}, {"a", "a", "b", "b"}), (Gpus{0, 1, 0, 1}));
  EXPECT_EQ(gpus_of_hosts({4, 5, 6, 7}, {"a", "a", "b", "b"}), (Gpus{4, 5, 4, 5})) << "those of the list's first number on";
  EXPECT_EQ(gpus_of_hosts({0, 0, 1, 1}, {"a", "a", "b", "b"}), (Gpus{0, 0, 0, 0})) << "two devices on a GPU of each host";
  EXPECT_EQ(gpus_of_hosts({3, 2, 1, 0}, {"a", "a", "b", "b"}), (Gpus{1, 0, 1, 0})) << "the first number is the least";
}

TEST(JobDevices, MayBeNamedByHostToo) {
  EXPECT_EQ(gpus_of_hosts({0, 1, 0, 1}, {"a", "a", "b", "b"}), (Gpus{0, 1, 0, 1}));
  EXPECT_EQ(gpus_of_hosts({0, 0, 0, 0}, {"a", "a", "b", "b"}), (Gpus{0, 0, 0, 0})) << "each rank sees one GPU, its own";
}

TEST(JobDevices, OfOtherKindsAreMadeOnEveryRank) {
  run_ranks(2, [](Group& group) {
    const auto all = devices_of_job("4x cpu", {.threads = 2}, {}, &group);
    ASSERT_EQ(all.size(), 4u);
    for (const auto& device : all) {
      EXPECT_EQ(device->options().threads, 2);
      EXPECT_EQ(empty({3}, DType::f32, device).bytes(), 12);
    }
  });
  EXPECT_EQ(devices_of_job("3x meta", {}, {}, nullptr).size(), 3u);
}

/// Needs neither a GPU nor a build with CUDA.
TEST(JobDevices, StandInsCountAndHoldNothing) {
  const auto gpu = std::make_shared<const GpuDescription>(GpuDescription{.name = "NVIDIA H100", .multiprocessors = 132});
  const auto device = make_device(DeviceName{"cuda", 3}, {.budget_bytes = 1 << 30, .gpu = 1, .elsewhere = gpu}, {});
  EXPECT_EQ(device->name(), "cuda:3");
  EXPECT_EQ(device->gpu(), 1);
  EXPECT_EQ(device->budget_bytes(), 1 << 30);
  EXPECT_EQ(device->live_bytes(), Cuda::kOwnBytes);
  EXPECT_EQ(describe_gpu(*device).name, "NVIDIA H100");
  device->synchronize();
  expect_error<Error>([&] { empty({3}, DType::f32, device); }, {"cuda:3: needs memory of its own for", "another rank's"});
}

}  // namespace
}  // namespace sluice::parallel
