#include "parallel/plan.h"

#include <fmt/core.h>

#include <map>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/config_words.h"
#include "cli/kernels.h"
#include "cli/list_text.h"
#include "cli/report/json_report.h"
#include "cli/report/plan_plots.h"
#include "cli/result_files.h"
#include "core/byte_units.h"
#include "core/device_speeds.h"
#include "core/file/file.h"
#include "parallel/plan/advice.h"
#include "parallel/schedule/csv.h"

namespace sluice::cli {

namespace {

void print_plan(std::FILE* out, const layers::Graph& graph, const parallel::Plan& plan, const parallel::Prediction& prediction) {
  fmt::print(out, "{} parameters in {} nodes\n", graph.parameter_count(), graph.nodes().size());
  fmt::print(out, "partition {} nodes a stage, {} micro-batches, schedule {}\n", list_text(plan.partition.stage_sizes(), "+"),
             plan.micro_batches, name_of(plan.schedule));
  if (const auto& [replicas, blocks, shards] = plan.replication; replicas > 1)
    fmt::print(out, "{} replicas of devices {}, {} fold blocks, {}\n", replicas, name_of(plan.replica_devices), blocks,
               shards ? "each with a part of the optimizer" : "each with the whole optimizer");
  if (plan.is_out_of_time)
    fmt::print(out, "the search ended before it was done (pipeline.search_seconds): this is the best plan until then\n");
  fmt::print(out, "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "device", "parameters", "gradients", "optimizer", "activations",
             "peak", "budget");
  for (const auto& device : prediction.devices)
    fmt::print(out, "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", device.name, bytes_text(device.parameter_bytes),
               bytes_text(device.gradient_bytes), bytes_text(device.optimizer_bytes), bytes_text(device.activation_peak_bytes),
               bytes_text(device.peak_bytes), device.budget_bytes == kUnlimited ? "-" : bytes_text(device.budget_bytes));
  if (prediction.fits)
    fmt::print(out, "step {:.4g} s {}, bubble {:.1f} %\n", prediction.step_seconds,
               plan.times.empty() ? "at the devices' full speed" : "by measured times", prediction.bubble * 100);
  else
    fmt::print(out, "does not fit: {}\n", prediction.reason);
}

void print_trials(std::FILE* out, const std::vector<parallel::ReplicaTrial>& trials, const parallel::Plan& plan) {
  if (trials.empty()) return;
  const char* step = is_searched_by_other_speeds(plan) ? "nominal step" : "step";
  fmt::print(out, "{:>8} {:>8} {:>8} {:>12} {:>8} {:>12}\n", "replicas", "devices", "which", step, "bubble", "peak");
  for (const auto& trial : trials) {
    const std::string devices = fmt::format("{:>8} {:>8} {:>8}", trial.replicas, trial.devices_of_replica,
                                            trial.devices_of_replica == 1 || trial.replicas == 1 ? "-" : name_of(trial.replica_devices));
    const std::string seconds = fmt::format("{:.4g} s", trial.step_seconds);
    const std::string shown = trial.is_bound ? ">= " + seconds : trial.fits ? seconds : "does not fit";
    fmt::print(out, "{} {:>12} {:>8} {:>12}  {}\n", devices, shown, trial.fits ? fmt::format("{:.1f} %", trial.bubble * 100) : "-",
               trial.is_bound ? "-" : bytes_text(trial.peak_bytes), in_config_words(trial.obstacle));
  }
  if (const std::string why = parallel::why_so_many_replicas(trials); !why.empty()) fmt::print(out, "{}\n", why);
}

/// By node: forward and backward of a micro-batch, as the plan was measured or counted.
std::vector<double> node_seconds(const layers::Graph& graph, int64_t batch, const parallel::Plan& plan, const Optimizer& optimizer,
                                 const parallel::DeviceSpeeds& speeds) {
  const int64_t samples = (batch + plan.micro_batches - 1) / plan.micro_batches;
  const auto kinds = parallel::device_kinds(plan.devices), placement = parallel::device_of_stage(plan);
  std::map<int, std::vector<parallel::NodeTimes>> times;  // by kind
  for (size_t device = 0; device < kinds.size(); ++device)
    if (auto& kind = times[kinds[device]]; kind.empty())
      kind = plan.times.empty()
                 ? parallel::counted_nodes(graph, samples, speeds.of(device), plan.precision, optimizer, plan.devices[device]->backend(),
                                           nullptr, plan.micro_batches / plan.replication.replicas)
                 : plan.times[kinds[device]];
  std::vector<double> seconds;
  const std::vector<int>& segments = plan.partition.segments().sizes;
  for (size_t segment = 0; segment < segments.size(); ++segment)
    for (int i = 0; i < segments[segment]; ++i) {
      const parallel::NodeTimes& node = times[kinds[placement[segment]]][seconds.size()];
      seconds.push_back(node.forward + node.backward);
    }
  return seconds;
}

/// What is written of one plan goes with no other table.
/// The order of one pipeline, which pipeline.schedule takes for each.
parallel::Schedule schedule_of_replica(parallel::Plan plan) {
  const int replicas = plan.replication.replicas;
  require(plan.micro_batches % replicas == 0, "--csv: needs as many micro-batches for each of the ", replicas, " replicas, got ",
          plan.micro_batches, " in all; set a multiple of ", replicas);
  plan.devices.resize(static_cast<size_t>(parallel::devices_of_replica(plan)));
  plan.replication = {};
  return parallel::schedule_of(plan, plan.micro_batches / replicas);
}

void require_alone(const Arguments& arguments, const char* table, const char* of) {
  for (const char* other : {"--svg", "--html", "--csv"})
    require(arguments.text(other).empty(), table, ": ", of, ", and ", other, " is of one plan; leave one of them out");
}

}  // namespace

int run_plan(const Arguments& arguments) {
  Settings settings = read_settings(arguments.argument, arguments.list("--set"));
  if (arguments.has("--print-config")) {
    fmt::print("{}", settings.toml());
    return 0;
  }
  if (arguments.has("--profile")) settings.set("pipeline.costs=measured");
  const std::string json = arguments.text("--json"), svg = arguments.text("--svg"), html = arguments.text("--html");
  FilesRead read = files_read(arguments.argument, settings);
  read.named.emplace_back("--kernels", arguments.text("--kernels"));
  require_harmless({{"--json", json}, {"--svg", svg}, {"--html", html}, {"--csv", arguments.text("--csv")}}, read);
  const auto graph = build_graph(settings);
  const auto optimizer = build_optimizer(settings);
  if (const std::string device = arguments.text("--kernels"); !device.empty()) {
    require_alone(arguments, "--kernels", "is of one device");
    for (const char* other : {"--compare", "--profile"})
      require(!arguments.has(other), "--kernels: is a table of its own; leave ", other, " out");
    return kernels(graph, settings, *optimizer, device, json);
  }
  if (arguments.has("--compare")) {
    require_alone(arguments, "--compare", "plans many layouts");
    return compare(graph, settings, *optimizer, json);
  }
  std::vector<parallel::ReplicaTrial> trials;
  const auto plan = build_plan(graph, settings, *optimizer, nullptr, &trials);
  const parallel::DeviceSpeeds speeds(speeds_of(plan.devices, plan.precision));
  auto prediction = parallel::predict(graph, plan, *optimizer, settings.integer("train.batch"), speeds);
  if (!prediction.fits)
    if (const auto advice = parallel::nearest_that_fits(graph, plan.devices, plan_options(graph, settings, *optimizer)); !advice.empty())
      prediction.reason += "; " + advice;
  prediction.reason = in_config_words(prediction.reason);

  if (json != "-") {
    print_trials(stdout, trials, plan);
    print_plan(stdout, graph, plan, prediction);
  }
  write_json(plan_json(graph, plan, prediction, trials), json);
  if (const std::string csv = arguments.text("--csv"); !csv.empty()) replace_file(csv, parallel::schedule_csv(schedule_of_replica(plan)));
  if (svg.empty() && html.empty()) return prediction.fits ? 0 : 4;
  const PlannedStep step{graph, plan, prediction, node_seconds(graph, settings.integer("train.batch"), plan, *optimizer, speeds)};
  if (!svg.empty()) replace_file(svg, plan_plots(step).finish());
  if (!html.empty()) replace_file(html, plan_page(step));
  return prediction.fits ? 0 : 4;
}

}  // namespace sluice::cli
