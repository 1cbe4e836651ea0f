#include "training/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "core/file/file.h"
#include "training/report/charts.h"
#include "training/report/svg.h"
#include "training/report/timeline.h"

namespace sluice::training {

namespace {

std::string loss_text(double loss) { return number_text(loss, 4); }

std::string loss_rows(const TrainingRecord& record) {
  std::string rows;
  if (!record.steps.empty())
    rows += html_row("training loss, first and last",
                     loss_text(record.steps.front().result.loss) + ", " + loss_text(record.steps.back().result.loss));
  if (!record.evaluations.empty()) rows += html_row("validation loss", loss_text(record.evaluations.back().loss));
  for (const auto& name : record.metrics())
    if (const auto value = record.last_metric(name)) rows += html_row("validation " + xml_text(name), metric_text(record, name, *value));
  for (const auto& [name, loss] : record.baselines) rows += html_row(xml_text(name) + " model's loss, same split", loss_text(loss));
  return rows;
}

std::string summary(const TrainingRecord& record) {
  const auto seconds = record.median_of_steps(&parallel::StepResult::seconds),
             bubble = record.median_of_steps(&parallel::StepResult::bubble);
  std::string rows = html_row("parameters", std::to_string(record.parameters)) + html_row("steps", std::to_string(record.steps_done));
  if (record.skipped_steps > 0) rows += html_row("skipped steps, gradients not finite", std::to_string(record.skipped_steps));
  rows += loss_rows(record);
  if (seconds > 0.0)
    rows += html_row("step, median", fmt::format("{:.1f} ms, {:.0f} {}s/s", *seconds * 1e3,
                                                 static_cast<double>(record.items_per_step) / *seconds, xml_text(record.item))) +
            html_row("step, predicted", record.predictions_text());
  rows += html_row("bubble, predicted and measured",
                   fmt::format("{:.1f} %, {}", record.prediction.bubble * 100, bubble ? fmt::format("{:.1f} %", *bubble * 100) : "none"));
  return "<table>\n" + rows + html_row("weights hash", record.weights_hash) + "</table>\n";
}

std::string metric_sections(const TrainingRecord& record) {
  std::string sections;
  for (const auto& name : record.metrics()) {
    std::string title = name;
    if (!title.empty()) title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    sections += html_section(title, metric_chart(record, name));
  }
  return sections;
}

/// The last step as it was predicted, above it as it was, on one axis.
std::string pipeline_plots(const TrainingRecord& record) {
  if (record.trace.device_names.empty()) return "";
  parallel::Trace predicted = record.prediction.trace;
  predicted.device_names = record.trace.device_names;
  const double seconds = std::max(predicted.seconds, record.trace.seconds);
  std::vector<int64_t> budgets;
  for (const auto& device : record.devices) budgets.push_back(device.budget_bytes);
  std::string plots;
  if (!predicted.events.empty()) plots += timeline_plot(predicted, {"Predicted", seconds}).finish();
  plots += timeline_plot(record.trace, {"Measured: the last step", seconds}).finish();
  return plots + memory_timeline_plot(record.trace, budgets, {"Memory, measured", seconds}).finish();
}

}  // namespace

std::string html_report(const TrainingRecord& record, const std::vector<ReportSection>& sections) {
  std::string body = summary(record) + html_section("Loss", loss_chart(record)) + metric_sections(record) +
                     html_section("Pipeline", pipeline_plots(record)) + html_section("Memory by device", memory_chart(record.devices));
  for (const auto& section : sections) body += html_section(section.title, section.html);
  if (!record.config.empty()) body += html_section("Config", html_preformatted(record.config));
  return html_page("Training report", body);
}

void write_report(const std::string& file, const TrainingRecord& record, const std::vector<ReportSection>& sections) {
  replace_file(file, html_report(record, sections));
}

}  // namespace sluice::training
