#include "cli/report/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/report/attention_plot.h"
#include "cli/report/charts.h"
#include "cli/report/html_page.h"
#include "cli/report/svg.h"
#include "cli/report/timeline.h"

namespace sluice::cli {

namespace {

std::string loss_rows(const RunRecord& record) {
  std::string rows;
  if (!record.steps.empty())
    rows += html_row("training loss, first and last",
                     fmt::format("{:.4f}, {:.4f}", record.steps.front().result.loss, record.steps.back().result.loss));
  if (!record.validations.empty()) rows += html_row("validation loss", fmt::format("{:.4f}", record.validations.back().loss));
  if (const auto accuracy = last_accuracy(record)) rows += html_row("validation accuracy", fmt::format("{:.2f} %", *accuracy * 100));
  if (record.trigram_loss) rows += html_row("trigram model's loss, same split", fmt::format("{:.4f}", *record.trigram_loss));
  return rows;
}

std::string summary(const RunRecord& record) {
  const double seconds = median_of_steps(record, &parallel::StepResult::seconds);
  std::string rows =
      html_row("parameters", std::to_string(record.parameters)) + html_row("steps", std::to_string(record.steps_done)) + loss_rows(record);
  if (seconds > 0)
    rows += html_row("step, median", fmt::format("{:.1f} ms, {:.0f} {}s/s", seconds * 1e3,
                                                 static_cast<double>(record.items_per_step) / seconds, record.item)) +
            html_row("step, predicted", predictions_text(record));
  rows += html_row("bubble, predicted and measured", fmt::format("{:.1f} %, {:.1f} %", record.prediction.bubble * 100,
                                                                 median_of_steps(record, &parallel::StepResult::bubble) * 100));
  return "<table>\n" + rows + html_row("weights hash", record.weights_hash) + "</table>\n";
}

/// The last step as it was predicted, above it as it was, on one axis.
std::string pipeline_plots(const RunRecord& record) {
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

std::string html_report(const RunRecord& record) {
  std::string body = summary(record) + html_section("Loss", loss_chart(record)) +
                     (last_accuracy(record) ? html_section("Accuracy", accuracy_chart(record)) : "") +
                     html_section("Pipeline", pipeline_plots(record)) + html_section("Memory by device", memory_chart(record.devices));
  if (!record.images.empty()) body += html_section("Validation images and predictions", image_table(record.images));
  if (!record.sample.empty()) body += html_section("A sample of text", html_preformatted(record.sample));
  if (record.translation)
    body += html_section("Translations of held-out pairs",
                         html_table(record.translation->rows()) + html_preformatted(record.translation->notes()));
  if (record.attention) body += html_section("An attention", html_attention(*record.attention));
  body += html_section("Config", html_preformatted(record.config));
  return html_page("Training report", body);
}

}  // namespace sluice::cli
