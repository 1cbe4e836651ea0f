#include "cli/report/plan_plots.h"

#include <fmt/core.h>

#include "cli/list_text.h"
#include "core/byte_units.h"
#include "training/report/html_page.h"
#include "training/report/partition_plot.h"
#include "training/report/timeline.h"

namespace sluice::cli {

namespace {

training::Svg cut_plot(const PlannedStep& step) {
  const auto topology = parallel::topology_of(step.graph);
  std::vector<int64_t> parameters;
  for (size_t node = 0; node < step.graph.nodes().size(); ++node) parameters.push_back(step.graph.parameter_count(static_cast<int>(node)));
  return training::partition_plot({topology, step.plan.partition.segments(), parameters, step.node_seconds});
}

/// The predicted trace with the names of the plan's devices.
parallel::Trace named_trace(const PlannedStep& step) {
  parallel::Trace trace = step.prediction.trace;
  trace.device_names.clear();
  for (const auto& device : step.prediction.devices) trace.device_names.push_back(device.name);
  return trace;
}

std::vector<int64_t> budgets_of(const PlannedStep& step) {
  std::vector<int64_t> budgets;
  for (const auto& device : step.prediction.devices) budgets.push_back(device.budget_bytes);
  return budgets;
}

std::string title_of(const PlannedStep& step) {
  return fmt::format("Predicted step: {}, {} micro-batches", name_of(step.plan.schedule), step.plan.micro_batches);
}

std::string summary_table(const PlannedStep& step) {
  const auto& prediction = step.prediction;
  const std::string outcome = prediction.fits ? fmt::format("{:.4g} s, bubble {:.1f} %", prediction.step_seconds, prediction.bubble * 100)
                                              : "does not fit: " + training::xml_text(prediction.reason);
  return "<table>\n" +
         training::html_row("parameters", fmt::format("{} in {} nodes", step.graph.parameter_count(), step.graph.nodes().size())) +
         training::html_row("nodes by stage", list_text(step.plan.partition.stage_sizes(), " + ")) +
         training::html_row("schedule", training::xml_text(name_of(step.plan.schedule))) +
         training::html_row("micro-batches", std::to_string(step.plan.micro_batches)) + training::html_row("step", outcome) + "</table>\n";
}

std::string device_table(const std::vector<parallel::DevicePrediction>& devices) {
  std::string rows =
      "<tr><th>device</th><th>parameters</th><th>gradients</th><th>optimizer</th><th>activations</th><th>peak</th>"
      "<th>budget</th></tr>\n";
  for (const auto& device : devices)
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        training::xml_text(device.name), bytes_text(device.parameter_bytes), bytes_text(device.gradient_bytes),
                        bytes_text(device.optimizer_bytes), bytes_text(device.activation_peak_bytes), bytes_text(device.peak_bytes),
                        device.budget_bytes == kUnlimited ? "-" : bytes_text(device.budget_bytes));
  return "<table>\n" + rows + "</table>\n";
}

}  // namespace

training::Svg plan_plots(const PlannedStep& step) {
  if (!step.prediction.fits) return cut_plot(step);
  const auto trace = named_trace(step);
  training::Svg plots = training::timeline_plot(trace, {title_of(step)});
  plots.append(training::memory_timeline_plot(trace, budgets_of(step), {"Memory"}));
  plots.append(cut_plot(step));
  return plots;
}

std::string plan_page(const PlannedStep& step) {
  return training::html_page("Plan of a training step", summary_table(step) + training::html_section("Plots", plan_plots(step).finish()) +
                                                            training::html_section("Devices", device_table(step.prediction.devices)));
}

}  // namespace sluice::cli
