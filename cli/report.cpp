#include "cli/report.h"

#include <fmt/core.h>

#include "build_config.h"
#include "cli/charts.h"
#include "cli/svg.h"

namespace sluice::cli {

namespace {

constexpr const char* kStyle =
    "body{font-family:sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "h2{margin-top:1.6em;border-bottom:1px solid #ddd}svg{max-width:100%;height:auto}"
    "pre{background:#f6f6f6;padding:1em;overflow:auto;white-space:pre-wrap}td{padding:2px 1.5em 2px 0}";

std::string section(const std::string& title, const std::string& content) { return fmt::format("<h2>{}</h2>\n{}", title, content); }

std::string preformatted(const std::string& text) { return fmt::format("<pre>{}</pre>\n", xml_text(text)); }

std::string row(const std::string& name, const std::string& value) { return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, value); }

std::string loss_rows(const RunRecord& record) {
  std::string rows;
  if (!record.steps.empty())
    rows += row("training loss, first and last",
                fmt::format("{:.4f}, {:.4f}", record.steps.front().result.loss, record.steps.back().result.loss));
  if (!record.validations.empty()) rows += row("validation loss", fmt::format("{:.4f}", record.validations.back().loss));
  if (const auto accuracy = last_accuracy(record)) rows += row("validation accuracy", fmt::format("{:.2f} %", *accuracy * 100));
  if (record.trigram_loss) rows += row("trigram model's loss, same split", fmt::format("{:.4f}", *record.trigram_loss));
  return rows;
}

std::string summary(const RunRecord& record) {
  const double seconds = median_of_steps(record, &parallel::StepResult::seconds);
  std::string rows =
      row("parameters", std::to_string(record.parameters)) + row("steps", std::to_string(record.steps_done)) + loss_rows(record);
  if (seconds > 0)
    rows += row("step, median",
                fmt::format("{:.1f} ms, {:.0f} {}s/s", seconds * 1e3, static_cast<double>(record.items_per_step) / seconds, record.item));
  rows += row("bubble, predicted and measured", fmt::format("{:.1f} %, {:.1f} %", record.prediction.bubble * 100,
                                                            median_of_steps(record, &parallel::StepResult::bubble) * 100));
  return "<table>\n" + rows + row("weights hash", record.weights_hash) + "</table>\n";
}

}  // namespace

std::string html_report(const RunRecord& record) {
  std::string body =
      summary(record) + section("Loss", loss_chart(record)) + (last_accuracy(record) ? section("Accuracy", accuracy_chart(record)) : "") +
      section("Pipeline: the last step", timeline_chart(record.trace)) + section("Memory by device", memory_chart(record.devices));
  if (!record.pictures.empty()) body += section("Validation pictures and predictions", picture_table(record.pictures));
  if (!record.sample.empty()) body += section("A sample of text", preformatted(record.sample));
  body += section("Config", preformatted(record.config));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sluice: training report</title>\n<style>{}</style></head>\n"
      "<body>\n<h1>Training report</h1>\n{}<p>Sluice {}</p>\n</body></html>\n",
      kStyle, body, build::version);
}

}  // namespace sluice::cli
