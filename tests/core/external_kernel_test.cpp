#include "core/external_kernel.h"

#include <gtest/gtest.h>

#include "core/device.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

Tensor doubled(const Tensor& x) {
  const Tensor y = empty_like(x);
  run_external("double", {x}, {.flops = double(x.elements())}, {.cpu = [&](Cpu& cpu) {
                 cpu.parallel_for(x.elements(), 2, [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) y.data<float>()[i] = 2 * x.data<float>()[i];
                 });
               }});
  return y;
}

TEST(ExternalKernel, RunsOnTheOperandsDeviceAndIsCounted) {
  const DevicePtr device = devices("cpu:0")[0];
  const Tensor x = tensor_of({1, 2, 3, 4, 5}, {5}, DType::f32, device);
  const Cost before = device->counted();
  EXPECT_EQ(doubled(x).to_vector(), (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ((device->counted() - before).flops, 5);
}

TEST(ExternalKernel, IsCountedAndNotRunWhereDevicesOnlyCount) {
  const DevicePtr device = devices("meta:0")[0];
  EXPECT_EQ(doubled(empty({5}, DType::f32, device)).shape(), Shape({5}));
  EXPECT_EQ(device->counted().flops, 5);
}

TEST(ExternalKernel, SaysWhatItLacks) {
  const Tensor x = zeros({2}), there = empty({2}, DType::f32, devices("meta:0")[0]);
  expect_error<UsageError>([&] { run_external("mine", {x}, {}, {}); }, {"mine: has no kernel for a CPU", "ExternalKernel::cpu"});
  expect_error<UsageError>([&] { run_external("mine", {x, there}, {}, {.cpu = [](Cpu&) {}}); }, {"mine", "meta:0"});
}

}  // namespace
}  // namespace sluice
