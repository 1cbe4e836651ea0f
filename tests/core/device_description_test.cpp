#include "core/device_description.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/temporary_folder.h"

namespace sluice {
namespace {

constexpr const char* kOwn =
    "name = \"mine\"\nbackend = \"cpu\"\nmemory_bytes = 1e9\nbytes_per_second = 1e10\n"
    "[flops_per_second]\nf32 = 2e12\n[link]\nname = \"wire\"\nbytes_per_second = 1e8\nlatency_seconds = 0.01\n";

/// The text with one line replaced.
std::string changed(std::string text, const std::string& line, const std::string& by) {
  return text.replace(text.find(line), line.size(), by);
}

TEST(DeviceDescription, EveryFileIsWholeAndNamesItsSpeedInSomePrecision) {
  EXPECT_GE(described_devices().size(), 6u);
  for (const auto& name : described_devices()) {
    const auto description = describe_device(name);
    EXPECT_FALSE(description.name.empty()) << name;
    EXPECT_GT(description.memory_bytes, int64_t{1} << 30) << name;
    EXPECT_TRUE(description.flops_per_second.contains("f32")) << name;
    EXPECT_GT(description.link.bytes_per_second, 1e9) << name;
  }
}

TEST(DeviceDescription, EfficienciesAreFractionsByOpAndLeavePlansAlone) {
  const auto description = describe_device("h200");
  EXPECT_GT(description.efficiency.at("matmul"), 0.5);
  EXPECT_TRUE(make_device("h200:0")->options().speed.efficiency.empty());
  const DeviceSpeed speed{.efficiency = {{"matmul", 0.5}, {"other", 0.25}}};
  EXPECT_EQ(speed.efficiency_of("matmul"), 0.5);
  EXPECT_EQ(speed.efficiency_of("add"), 0.25);
  EXPECT_EQ(DeviceSpeed{}.efficiency_of("add"), 1);
}

TEST(DeviceDescription, ATimeToLaunchIsWhatNoKernelIsFasterThanAndLeavesPlansAlone) {
  EXPECT_GT(describe_device("h200").launch_seconds, 1e-6);
  EXPECT_EQ(make_device("h200:0")->options().speed.launch_seconds, 0);
  EXPECT_EQ(describe_device("p100").launch_seconds, 0) << "its file does not say";
  Device device(DeviceKind::meta, 0, {.speed = {.flops_per_second = 1e9, .bytes_per_second = 1e9, .launch_seconds = 1e-3}});
  device.count({.flops = 1e5}, "add");
  EXPECT_DOUBLE_EQ(device.clock_seconds(), 1e-3);
  device.count({.flops = 2e6}, "add");
  EXPECT_DOUBLE_EQ(device.clock_seconds(), 3e-3);
}

TEST(DeviceDescription, DevicesAreMetaDevicesWithItsMemoryAndSpeed) {
  const auto eight = devices("8x a100", {}, {.precision = Precision::tf32});
  ASSERT_EQ(eight.size(), 8u);
  EXPECT_EQ(eight[7]->name(), "a100:7");
  EXPECT_EQ(eight[7]->kind(), DeviceKind::meta);
  EXPECT_EQ(eight[7]->backend(), DeviceKind::cuda);
  EXPECT_EQ(eight[7]->budget_bytes(), 80'000'000'000);
  EXPECT_EQ(eight[7]->options().speed.flops_per_second, 156e12);
  EXPECT_EQ(eight[7]->options().speed.link_bytes_per_second, 300e9);
  EXPECT_EQ(devices("128x tpuv3").back()->name(), "tpuv3:127");
  EXPECT_EQ(devices("tpuv3:0")[0]->backend(), DeviceKind::cpu);
}

TEST(DeviceDescription, BudgetAndLinkOfTheCallerGoFirst) {
  const auto device = devices("h100:0", {.budget_bytes = 1000'000'000}, {.link = describe_link("wan")})[0];
  EXPECT_EQ(device->budget_bytes(), 1000'000'000);
  EXPECT_EQ(device->options().speed.link_latency_seconds, 0.05);
  EXPECT_EQ(device->options().speed.link_bytes_per_second, 125e6);
  EXPECT_EQ(devices("cpu:0", {}, {.link = describe_link("ethernet-10g")})[0]->options().speed.link_bytes_per_second, 1.25e9);
}

TEST(DeviceDescription, DevicesAreInHostsWithLinksOfTheirOwn) {
  const auto list = devices("4x h100, cpu:0", {}, {.devices_of_host = 2, .host_link = describe_link("ethernet-10g")});
  std::vector<int> hosts;
  for (const auto& device : list) hosts.push_back(device->options().host);
  EXPECT_EQ(hosts, (std::vector{0, 0, 1, 1, 2}));
  EXPECT_EQ(list[0]->options().speed.host_link_bytes_per_second, 1.25e9);
  EXPECT_EQ(list[0]->options().speed.link_bytes_per_second, 450e9);
  EXPECT_EQ(devices("4x h100")[3]->options().host, 0);
}

TEST(DeviceDescription, ComesFromAUsersFileToo) {
  const TemporaryFolder folder;
  const auto file = folder.write("my-device.toml", kOwn).string();
  const auto two = devices("2x " + file, {}, {.precision = Precision::f32});
  EXPECT_EQ(two[1]->name(), "my-device:1");
  EXPECT_EQ(two[1]->options().speed, (DeviceSpeed{2e12, 1e10, 1e8, 0.01}));
  EXPECT_EQ(describe_link(file).name, "wire");
}

/// Such an integer was refused as none of the range that it is in.
TEST(DeviceDescription, TakesIntegersThatNoDoubleEquals) {
  const TemporaryFolder folder;
  const auto file = folder.write("fast.toml", changed(kOwn, "f32 = 2e12", "f32 = 9007199254740993")).string();
  EXPECT_EQ(describe_device(file).flops_per_second.at("f32"), 0x1p53);
}

TEST(DeviceDescription, NamesTheNearestKnownName) {
  expect_error<UsageError>([] { make_device("a10:0"); }, {"unknown kind 'a10'", "did you mean 'a100'?", "tpuv3"});
  expect_error<UsageError>([] { make_device("gpu:0"); }, {"unknown kind 'gpu'", "cpu, cuda, meta"});
  expect_error<UsageError>([] { describe_link("nvlnk"); }, {"did you mean 'nvlink'?", "ethernet-10g"});
  expect_error<UsageError>([] { describe_device("links"); }, {"unknown"});
  expect_error<UsageError>([] { make_device("nothing/there.toml:0"); }, {"there is no such file"});
}

TEST(DeviceDescription, APrecisionThatTheFileDoesNotKnowIsAnErrorWithFileAndKey) {
  expect_error<UsageError>([] { devices("4x p100", {}, {.precision = Precision::bf16}); },
                           {"p100.toml", "flops_per_second.bf16", "set train.precision"});
  EXPECT_EQ(devices("4x p100", {}, {.precision = Precision::f32})[0]->options().speed.flops_per_second, 9.3e12);
}

TEST(DeviceDescription, RefusesFilesThatAreWrongWithFileAndKey) {
  const TemporaryFolder folder;
  const struct {
    std::string line, by;
    std::string key, need;
  } cases[] = {{"memory_bytes = 1e9", "memory_bytes = -1", "memory_bytes", ">= 1"},
               {"memory_bytes = 1e9", "memory_bytes = 1e9\nlaunch_seconds = -1", "launch_seconds", ">= 0"},
               {"bytes_per_second = 1e8", "bytes_per_second = 1e-300", "link.bytes_per_second", ">= 1 and below"},
               {"memory_bytes = 1e9", "memory_bytes = nan", "memory_bytes", ""},
               {"memory_bytes = 1e9", "memory_byte = 1e9", ":3: unknown key 'memory_byte'", ""},
               {"memory_bytes = 1e9", "", "needs the key memory_bytes", ""},
               {"f32 = 2e12", "f32 = \"fast\"", "flops_per_second.f32", ""},
               {"f32 = 2e12", "f16 = 2e12", "unknown key 'flops_per_second.f16'", ""},
               {"latency_seconds = 0.01", "latency_seconds = -1", "link.latency_seconds", ">= 0"},
               {"[link]", "[lnk]", "unknown key 'lnk'", ""},
               {"backend = \"cpu\"", "backend = \"tpu\"", "backend", "got 'tpu'"},
               {"[link]", "[efficiency]\nmatmul = 1.5\n[link]", "efficiency.matmul", "a fraction, >= 1e-06 and <= 1"},
               {"[link]", "[efficiency]\nother = 5e-324\n[link]", "efficiency.other", "a fraction, >= 1e-06 and <= 1"},
               {"[link]", "[link", ":7: ", ""}};
  for (const auto& wrong : cases) {
    const auto file = folder.write("wrong.toml", changed(kOwn, wrong.line, wrong.by)).string();
    expect_error<UsageError>([&] { describe_device(file); }, {"wrong.toml", wrong.key, wrong.need});
  }
}

}  // namespace
}  // namespace sluice
