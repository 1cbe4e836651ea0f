#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "cli/commands.h"
#include "cli/json_report.h"
#include "core/machine_limits.h"

namespace sluice::cli {

int run_devices(const Arguments& arguments) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const double one_core = measured_peak_flops(1), all_cores = measured_peak_flops(cores), bandwidth = measured_bandwidth();
  const Json json = {
      {"cpu",
       {{"cores", cores}, {"gflops_one_core", one_core / 1e9}, {"gflops", all_cores / 1e9}, {"gigabytes_per_second", bandwidth / 1e9}}},
      {"cuda", false}};
  const std::string target = arguments.text("--json");
  if (target != "-") {
    fmt::print("cpu   {} cores; measured peak {:.1f} GFLOP/s (f32) on one core, {:.1f} on all; {:.1f} GB/s on one core\n", cores,
               one_core / 1e9, all_cores / 1e9, bandwidth / 1e9);
    fmt::print("      use cpu:0, cpu:1, ...: each is a device of its own, with its own worker thread and byte budget\n");
    fmt::print("meta  any number; they count bytes and time for sluice plan\n");
    fmt::print("cuda  not part of this build\n");
  }
  write_json(json, target);
  return 0;
}

}  // namespace sluice::cli
