// Own kernels beside naive ones on a GPU: whether both compute the same, and how fast each is, in percent of the nearer limit measured in
// the same run. Exit code 1 when results differ.
//   ladder_bench [--device cuda:0] [--dtype bf16] [--json]      --json: one object a line
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/gpu_timing.h"
#include "bench/ladder/rungs.h"
#include "bench/relative_difference.h"
#include "bench/run_program.h"

namespace sluice::ladder {
namespace {

struct Row {
  std::string kernel;
  Cost cost;
  double difference, naive_seconds, shipped_seconds;
};

Row measure(const Rung& rung, Device& device) {
  Row row{.kernel = rung.kernel,
          .cost = {},
          .difference = bench::relative_difference(rung.shipped(), rung.naive()),
          .naive_seconds = 0,
          .shipped_seconds = 0};
  const Cost before = device.counted();
  rung.shipped();
  row.cost = device.counted() - before;
  const auto nothing = [] {};
  row.shipped_seconds = bench::gpu_seconds(device, 20, nothing, rung.shipped);
  row.naive_seconds = bench::gpu_seconds(device, 3, nothing, rung.naive);
  return row;
}

void print_text(const Row& row, double limit_seconds, bool equal) {
  std::printf("%-24s naive %9.1f us (%5.1f %% of limit)   shipped %8.1f us %7.0f GB/s %7.2f TFLOP/s (%5.1f %% of limit)%s\n",
              row.kernel.c_str(), 1e6 * row.naive_seconds, 100 * limit_seconds / row.naive_seconds, 1e6 * row.shipped_seconds,
              (row.cost.bytes_read + row.cost.bytes_written) / row.shipped_seconds / 1e9, row.cost.flops / row.shipped_seconds / 1e12,
              100 * limit_seconds / row.shipped_seconds, equal ? "" : "   DIFFERS");
}

void print_json(const Row& row, double limit_seconds, bool equal) {
  std::printf(
      "{\"kernel\": \"%s\", \"equal\": %s, \"difference\": %g, \"naive_us\": %g, \"shipped_us\": %g, \"naive_percent\": %g, "
      "\"shipped_percent\": %g, \"bytes\": %.0f, \"flops\": %.0f}\n",
      row.kernel.c_str(), equal ? "true" : "false", row.difference, 1e6 * row.naive_seconds, 1e6 * row.shipped_seconds,
      100 * limit_seconds / row.naive_seconds, 100 * limit_seconds / row.shipped_seconds, row.cost.bytes_read + row.cost.bytes_written,
      row.cost.flops);
}

int run(int argc, char** argv) {
  CLI::App app{"Own kernels beside naive ones"};
  std::string device_name = "cuda:0", dtype_name = "bf16";
  bool json = false;
  app.add_option("--device", device_name, "cuda:N");
  app.add_option("--dtype", dtype_name, "of activations: bf16 or f32");
  app.add_flag("--json", json, "one object a line");
  CLI11_PARSE(app, argc, argv);
  const DevicePtr device = make_device(device_name);
  require<UsageError>(device->kind() == DeviceKind::cuda, "ladder_bench: needs a CUDA device, got ", device_name);
  const DType dtype = dtype_named(dtype_name);
  const bench::Limits limits = bench::measured_limits(device, dtype);
  bool all_equal = true;
  for (const Rung& rung : rungs(device, dtype, kLarge)) {
    const Row row = measure(rung, *device);
    const bool equal = row.difference <= tolerance_of(dtype);
    (json ? print_json : print_text)(row, limits.seconds(row.cost), equal);
    std::fflush(stdout);  // rows are kept when the time runs out
    all_equal &= equal;
  }
  return all_equal ? 0 : 1;
}

}  // namespace
}  // namespace sluice::ladder

int main(int argc, char** argv) { return sluice::bench::run_program("ladder_bench", sluice::ladder::run, argc, argv); }
