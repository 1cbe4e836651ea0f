#include "cli/kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "cli/build.h"
#include "cli/report/json_report.h"
#include "core/device_description.h"
#include "core/device_speeds.h"
#include "core/machine_limits.h"
#include "parallel/plan/kernel_profile.h"

namespace sluice::cli {

namespace {

constexpr double kMeasuredSeconds = 10;

/// The whole model on one device, in the micro-batches of the config.
Settings on_one_device(Settings settings, const std::string& device) {
  settings.set("pipeline.devices=[" + toml_text(device) + "]");
  settings.set("pipeline.partition=auto");
  settings.set("pipeline.schedule=1f1b");
  settings.set("pipeline.virtual_stages=1");
  settings.set("pipeline.replicas=1");
  settings.set("pipeline.fold_blocks=1");
  settings.set("pipeline.costs=counted");
  if (settings.is_text("pipeline.micro_batches")) settings.set("pipeline.micro_batches=1");
  if (const auto remat = settings.texts("pipeline.remat"); remat == std::vector<std::string>{"auto"}) settings.set("pipeline.remat=none");
  return settings;
}

/// What a device does at most in a second. A described device or GPU has one rate of arithmetic, that of the products of the training.
struct Limits {
  double f32_flops = 0, bf16_flops = 0, bytes = 0;

  double seconds_of(std::string_view kind, const Cost& cost) const {
    return std::max(cost.flops / (kind.ends_with(" bf16") ? bf16_flops : f32_flops), (cost.bytes_read + cost.bytes_written) / bytes);
  }
};

Limits limits_of(const DevicePtr& device, Precision precision) {
  const DeviceSpeed speed = speeds_of({device}, precision).front();
  Limits limits{speed.flops_per_second, speed.flops_per_second, speed.bytes_per_second};
  if (device->kind() == DeviceKind::cpu && precision == Precision::bf16)
    limits.bf16_flops = measured_bf16_peak_flops(device->options().threads);
  return limits;
}

struct Row {
  std::string kind;
  KernelTally tally;
  std::optional<double> of_limit;  ///< the nearer limit's time over this
};

std::vector<Row> rows_of(const KernelTallies& kernels, const Limits& limits) {
  std::vector<Row> rows;
  for (const auto& [kind, tally] : kernels) {
    rows.push_back({kind, tally, std::nullopt});
    if (tally.seconds > 0) rows.back().of_limit = limits.seconds_of(kind, tally.cost) / tally.seconds;
  }
  std::ranges::stable_sort(rows, std::greater(), [](const Row& row) { return row.tally.seconds; });
  return rows;
}

void print_row(std::string_view kind, const KernelTally& tally, double step_seconds, const std::string& of_limit) {
  const double bytes = tally.cost.bytes_read + tally.cost.bytes_written;
  fmt::print("{:<32} {:>7} {:>11.3f} {:>7.1f} % {:>11.3f} {:>10.4f} {:>10.1f} {:>9.1f} {:>8}\n", kind, tally.calls, tally.seconds * 1e3,
             100 * tally.seconds / step_seconds, tally.cost.flops / 1e9, bytes / 1e9,
             tally.seconds > 0 ? tally.cost.flops / tally.seconds / 1e9 : 0, tally.seconds > 0 ? bytes / tally.seconds / 1e9 : 0, of_limit);
}

KernelTally sum_of(const KernelTallies& kernels) {
  KernelTally sum;
  for (const auto& [kind, tally] : kernels) {
    sum.calls += tally.calls;
    sum.cost += tally.cost;
    sum.seconds += tally.seconds;
  }
  return sum;
}

void print(const parallel::KernelProfile& profile, const Limits& limits, Precision precision) {
  fmt::print("{:<32} {:>7} {:>11} {:>9} {:>11} {:>10} {:>10} {:>9} {:>8}\n", "kernel", "calls", "ms", "of step", "GFLOP", "GB", "GFLOP/s",
             "GB/s", "of limit");
  for (const Row& row : rows_of(profile.kernels, limits))
    print_row(row.kind, row.tally, profile.step_seconds, row.of_limit ? fmt::format("{:.1f} %", 100 * *row.of_limit) : "-");
  const KernelTally sum = sum_of(profile.kernels);
  print_row("all kernels", sum, profile.step_seconds, "");
  const double peak = precision == Precision::bf16 ? limits.bf16_flops : limits.f32_flops;
  fmt::print("step {:.4g} s, of which kernels {:.1f} %; arithmetic {:.1f} % of the peak", profile.step_seconds,
             100 * sum.seconds / profile.step_seconds, 100 * sum.cost.flops / profile.step_seconds / peak);
  const double bytes = sum.cost.bytes_read + sum.cost.bytes_written;
  fmt::print("\nmemory {:.4g} GB, {:.2f} times what actions take that touch all they are handed and hand on once: {:.4g} GB\n", bytes / 1e9,
             bytes / profile.least_bytes, profile.least_bytes / 1e9);
}

Json json_of(const parallel::Plan& plan, int64_t batch, const parallel::KernelProfile& profile, const Limits& limits) {
  Json kernels = Json::array();
  for (const Row& row : rows_of(profile.kernels, limits))
    kernels.push_back({{"kernel", row.kind},
                       {"calls", row.tally.calls},
                       {"seconds", row.tally.seconds},
                       {"flops", row.tally.cost.flops},
                       {"bytes_read", row.tally.cost.bytes_read},
                       {"bytes_written", row.tally.cost.bytes_written},
                       {"of_limit", row.of_limit ? Json(*row.of_limit) : Json(nullptr)}});
  return {{"device", plan.devices[0]->name()},
          {"precision", name_of(plan.precision)},
          {"samples", batch},
          {"micro_batches", plan.micro_batches},
          {"step_seconds", profile.step_seconds},
          {"least_bytes", profile.least_bytes},
          {"kernels", kernels}};
}

/// A described device, which has a name or a file, at the efficiencies that its description gives, and launched as it says.
DevicePtr as_kernels_run(const DevicePtr& device, const std::string& name) {
  Device::Options options = device->options();
  if (!options.model.empty()) {
    const DeviceDescription description = describe_device(name);
    options.speed.efficiency = description.efficiency;
    options.speed.launch_seconds = description.launch_seconds;
  }
  return std::make_shared<Device>(device->kind(), device->index(), std::move(options));
}

}  // namespace

int kernels(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer, const std::string& device,
            const std::string& json) {
  const auto names = device_names(device);
  require(names.size() == 1, "--kernels: needs one device, such as cpu:0 or h200, got '", device, "'");
  const Settings own = on_one_device(settings, device);
  parallel::Plan plan = build_plan(graph, own, optimizer);
  const int64_t batch = own.integer("train.batch");
  plan.devices[0] = as_kernels_run(plan.devices[0], names[0].kind);
  const bool is_meta = plan.devices[0]->kind() == DeviceKind::meta;
  const Limits limits = limits_of(plan.devices[0], plan.precision);
  const parallel::KernelProfile profile =
      is_meta ? parallel::counted_kernels(graph, plan, optimizer, batch)
              : parallel::measured_kernels(graph, plan, optimizer, synthetic_batch(own, batch), kMeasuredSeconds);
  if (json != "-") {
    fmt::print("{} of a step of {} samples in {} micro-batches, {}, on {}\n", is_meta ? "kernels, counted," : "kernels, measured,", batch,
               plan.micro_batches, name_of(plan.precision), plan.devices[0]->name());
    print(profile, limits, plan.precision);
  }
  write_json(json_of(plan, batch, profile, limits), json);
  return 0;
}

}  // namespace sluice::cli
