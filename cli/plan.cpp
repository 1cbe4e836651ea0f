#include "parallel/plan.h"

#include <fmt/core.h>

#include "cli/build.h"
#include "cli/byte_size.h"
#include "cli/charts.h"
#include "cli/commands.h"
#include "cli/json_report.h"
#include "cli/list_text.h"
#include "core/file.h"

namespace sluice::cli {

namespace {

void print_plan(std::FILE* out, const layers::Graph& graph, const parallel::Plan& plan, const parallel::Prediction& prediction) {
  fmt::print(out, "{} parameters in {} nodes\n", graph.parameter_count(), graph.nodes().size());
  fmt::print(out, "partition {} nodes a stage, {} micro-batches, schedule {}\n", list_text(plan.partition.sizes, "+"), plan.micro_batches,
             plan.schedule);
  fmt::print(out, "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "device", "parameters", "gradients", "optimizer", "activations",
             "peak", "budget");
  for (const auto& device : prediction.devices)
    fmt::print(out, "{:<10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", device.name, bytes_text(device.parameter_bytes),
               bytes_text(device.gradient_bytes), bytes_text(device.optimizer_bytes), bytes_text(device.activation_peak_bytes),
               bytes_text(device.peak_bytes), device.budget_bytes == kUnlimited ? "-" : bytes_text(device.budget_bytes));
  if (prediction.fits)
    fmt::print(out, "step {:.4g} s at the devices' full speed, bubble {:.1f} %\n", prediction.step_seconds, prediction.bubble * 100);
  else
    fmt::print(out, "does not fit: {}\n", prediction.reason);
}

}  // namespace

int run_plan(const Arguments& arguments) {
  const Settings settings = read_settings(arguments.argument, arguments.list("--set"));
  if (arguments.has("--print-config")) {
    fmt::print("{}", settings.toml());
    return 0;
  }
  const auto graph = build_graph(settings);
  const auto optimizer = build_optimizer(settings);
  const auto plan = build_plan(graph, settings);
  const auto prediction =
      parallel::predict(graph, plan, *optimizer, settings.integer("train.batch"), speed_of(plan.devices, plan.precision));

  const std::string json = arguments.text("--json"), svg = arguments.text("--svg");
  if (json != "-") print_plan(stdout, graph, plan, prediction);
  write_json(plan_json(graph, plan, prediction), json);
  if (!svg.empty() && prediction.fits) write_file(svg, timeline_chart(prediction.trace));
  return prediction.fits ? 0 : 4;
}

}  // namespace sluice::cli
