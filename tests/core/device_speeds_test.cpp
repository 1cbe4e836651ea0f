#include "core/device_speeds.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

DevicePtr device_of(DeviceKind kind, int threads, double link) {
  Device::Options options;
  options.threads = threads;
  options.speed.flops_per_second = 7;
  options.speed.link_bytes_per_second = link;
  return std::make_shared<Device>(kind, 0, options);
}

TEST(DeviceSpeeds, OfCpuDevicesAreMeasuredBesideOthersAndKeepTheirOwnLinks) {
  const auto speeds = speeds_of(
      {device_of(DeviceKind::meta, 1, 1e9), device_of(DeviceKind::cpu, 1, 2e9), device_of(DeviceKind::cpu, 1, 3e9)}, Precision::f32);
  ASSERT_EQ(speeds.size(), 3U);
  EXPECT_EQ(speeds[0].flops_per_second, 7) << "as declared";
  EXPECT_GT(speeds[1].flops_per_second, 1e8);
  EXPECT_GT(speeds[1].bytes_per_second, 1e7);
  EXPECT_EQ(speeds[2].flops_per_second, speeds[1].flops_per_second) << "measured once";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(speeds[i].link_bytes_per_second, 1e9 * static_cast<double>(i + 1));
}

}  // namespace
}  // namespace sluice
