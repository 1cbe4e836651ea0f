#include "core/device.h"

#include <gtest/gtest.h>

#include "core/cuda/cuda.h"
#include "core/tensor.h"

namespace sluice {
namespace {

TEST(Device, CountsLiveAndPeakBytesInMultiplesOf64) {
  const auto device = make_device("cpu:0");
  {
    const Tensor a = empty({1}, DType::f32, device), b = empty({17}, DType::f32, device);
    EXPECT_EQ(device->live_bytes(), 64 + 128);
  }
  EXPECT_EQ(device->live_bytes(), 0);
  EXPECT_EQ(device->peak_bytes(), 64 + 128);
  device->reset_peak();
  EXPECT_EQ(device->peak_bytes(), 0);
}

TEST(Device, AnH200CountsAsItsDataSheetAndTheCudaBackendSay) {
  const auto device = make_device("h200:1");
  EXPECT_EQ(device->name(), "h200:1");
  EXPECT_EQ(device->kind(), DeviceKind::meta);
  EXPECT_EQ(device->backend(), DeviceKind::cuda);
  EXPECT_EQ(device->budget_bytes(), 141'000'000'000);
  EXPECT_EQ(device->live_bytes(), Cuda::kOwnBytes) << "the libraries' workspace and the record of faults count from the start";
  EXPECT_NEAR(device->options().speed.flops_per_second, 989e12, 1e12);
  EXPECT_EQ(make_device("h200:0", {.budget_bytes = int64_t{1} << 30})->budget_bytes(), int64_t{1} << 30);
}

TEST(Device, NamesDeviceBytesAndBudgetWhenMemoryRunsOut) {
  for (const char* name : {"cpu:1", "meta:1"}) {
    const auto device = make_device(name, {.budget_bytes = 1000});
    const Tensor kept = empty({100}, DType::f32, device);
    try {
      empty({200}, DType::f32, device);
      FAIL() << "no error";
    } catch (const OutOfMemory& error) {
      const std::string message = error.what();
      for (const char* part : {name, "832 bytes", "448 live", "budget of 1000"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    EXPECT_EQ(device->live_bytes(), 448) << "a refused tensor is not counted";
    EXPECT_NO_THROW(empty({100}, DType::f32, device));
  }
}

TEST(Device, RefusesSizesThatWouldOverflowTheCount) {
  const auto device = make_device("meta:0");
  const Tensor kept = empty({int64_t{1} << 60}, DType::f32, device);
  EXPECT_THROW(empty({int64_t{1} << 60}, DType::f32, device), OutOfMemory);
  EXPECT_EQ(device->live_bytes(), int64_t{1} << 62);
}

TEST(Device, IsMadeFromItsName) {
  EXPECT_EQ(make_device("cpu")->name(), "cpu:0");
  EXPECT_EQ(make_device("meta:3")->name(), "meta:3");
  for (const char* wrong : {"cpu:", "cpu:-1", "cpu:x", "gpu:0", "", "cuda:99", "cpu:99999"})
    EXPECT_THROW(make_device(wrong), UsageError) << wrong;
}

TEST(Devices, AreListedByNameOrByNumber) {
  const auto two = devices("cpu:0, cpu:1");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1]->name(), "cpu:1");
  const auto four = devices("4x meta");
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(four[3]->name(), "meta:3");
  EXPECT_THROW(devices(""), UsageError);
  EXPECT_THROW(devices("0x meta"), UsageError);
}

TEST(MetaDevice, AdvancesItsClockByTheLargerOfArithmeticAndTraffic) {
  const auto device = make_device("meta:0", {.speed = {.flops_per_second = 100, .bytes_per_second = 10}});
  device->count({.flops = 200});
  EXPECT_DOUBLE_EQ(device->clock_seconds(), 2);
  device->count({.flops = 100, .bytes_read = 20, .bytes_written = 10});
  EXPECT_DOUBLE_EQ(device->clock_seconds(), 5);
  EXPECT_DOUBLE_EQ(device->counted().flops, 300);
}

}  // namespace
}  // namespace sluice
