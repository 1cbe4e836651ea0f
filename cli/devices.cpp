#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "cli/commands.h"
#include "cli/report/json_report.h"
#include "cli/result_files.h"
#include "core/byte_units.h"
#include "core/cuda/cuda.h"
#include "core/device_description.h"
#include "core/file/file.h"
#include "core/machine_limits.h"

namespace sluice::cli {

namespace {

Json gpus_json() {
  Json result = Json::array();
  for (int index = 0; index < cuda_device_count(); ++index) {
    const GpuDescription gpu = describe_gpu(index);
    result.push_back({{"name", gpu.name},
                      {"compute_capability", gpu.compute_capability / 10.0},
                      {"multiprocessors", gpu.multiprocessors},
                      {"memory_bytes", gpu.memory_bytes},
                      {"free_bytes", gpu.free_bytes}});
  }
  return result;
}

void print_gpus() {
  const std::string reason = cuda_unavailable_reason();
  if (!reason.empty()) fmt::print("cuda  none: {}\n", reason);
  for (int index = 0; index < cuda_device_count(); ++index) {
    const GpuDescription gpu = describe_gpu(index);
    fmt::print("cuda  cuda:{} is an {} with {} multiprocessors, compute capability {:.1f}, {} of {} free\n", index, gpu.name,
               gpu.multiprocessors, gpu.compute_capability / 10.0, bytes_text(gpu.free_bytes), bytes_text(gpu.memory_bytes));
  }
}

void print_descriptions() {
  fmt::print("meta  any number; they count bytes and time for sluice plan. With a description, such as pipeline.devices = \"8x a100\":\n");
  for (const auto& name : described_devices()) {
    const DeviceDescription device = describe_device(name);
    std::string speeds;
    for (const auto& [precision, flops] : device.flops_per_second) speeds += fmt::format("{} {:g}, ", precision, flops / 1e12);
    fmt::print("      {:<8} {}: {}TFLOP/s; {}, {:g} GB/s; {}\n", name, device.name, speeds.replace(speeds.size() - 2, 1, ""),
               bytes_text(device.memory_bytes), device.bytes_per_second / 1e9, device.link.name);
  }
  fmt::print("links of plans (pipeline.link):\n");
  for (const auto& name : described_links()) {
    const LinkDescription link = describe_link(name);
    fmt::print("      {:<14} {}: {:g} GB/s, {:g} us\n", name, link.name, link.bytes_per_second / 1e9, link.latency_seconds * 1e6);
  }
}

/// One core of this machine's processor as the description of a device.
std::string measured_description(int cores, double flops, double bandwidth) {
  return fmt::format(
      "# One core of this machine, as sluice devices --describe measured it.\n"
      "name = {}\nbackend = \"cpu\"\nmemory_bytes = {}  # what is free now, shared by {} cores\nbytes_per_second = {:.4g}  # triad\n\n"
      "[flops_per_second]\nf32 = {:.4g}\ntf32 = {:.4g}  # as f32: only CUDA devices know tf32\nbf16 = {:.4g}\n\n"
      "[link]\nname = \"memory of one machine\"\nbytes_per_second = {:.4g}  # a copy; virtual devices hand tensors over without one\n"
      "latency_seconds = 1e-5  # not measured: waking a thread\n",
      toml_text(processor_name()), available_memory_bytes() / cores, cores, bandwidth, flops, flops, measured_bf16_peak_flops(1),
      bandwidth / 2);
}

}  // namespace

int run_devices(const Arguments& arguments) {
  require_harmless({{"--json", arguments.text("--json")}, {"--describe", arguments.text("--describe")}}, {});
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const double one_core = measured_peak_flops(1), all_cores = measured_peak_flops(cores), bandwidth = measured_bandwidth();
  const Json json = {
      {"cpu",
       {{"cores", cores}, {"gflops_one_core", one_core / 1e9}, {"gflops", all_cores / 1e9}, {"gigabytes_per_second", bandwidth / 1e9}}},
      {"cuda", gpus_json()},
      {"cuda_unavailable", cuda_unavailable_reason()}};
  const std::string target = arguments.text("--json");
  if (target != "-") {
    fmt::print("cpu   {} cores; measured peak {:.1f} GFLOP/s (f32) on one core, {:.1f} on all; {:.1f} GB/s on one core\n", cores,
               one_core / 1e9, all_cores / 1e9, bandwidth / 1e9);
    fmt::print("      use cpu:0, cpu:1, ...: each is a device of its own, with its own worker thread and byte budget\n");
    print_gpus();
    print_descriptions();
  }
  write_json(json, target);
  if (const std::string file = arguments.text("--describe"); !file.empty())
    replace_file(file, measured_description(cores, one_core, bandwidth));
  return 0;
}

}  // namespace sluice::cli
