#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/json_report.h"
#include "core/cuda/cuda.h"
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

}  // namespace

int run_devices(const Arguments& arguments) {
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
    fmt::print("meta  any number; they count bytes and time for sluice plan; h200:0, h200:1, ... count as NVIDIA's H200 would\n");
  }
  write_json(json, target);
  return 0;
}

}  // namespace sluice::cli
