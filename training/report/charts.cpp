#include "training/report/charts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/byte_units.h"
#include "training/report/svg.h"

namespace sluice::training {

namespace {

constexpr double kWidth = 960, kLeft = 70, kRight = 20, kTop = 20;
constexpr const char *kGrid = "#e4e4e4", *kTrain = "#4c78a8", *kValidation = "#e45756", *kBaseline = "#333333";

/// Maps values to pixels.
struct Scale {
  double low, high, first, last;
  /// By halves, as the distance from the least to the largest number has no double.
  double operator()(double value) const {
    return high > low ? first + (value / 2 - low / 2) / (high / 2 - low / 2) * (last - first) : (first + last) / 2;
  }
};

constexpr double kChartHeight = 300, kBottom = 40;

struct ChartScales {
  Scale x, y;
};

/// From the first step of this run, or an evaluation that it made up for before that.
Scale step_scale(const TrainingRecord& record) {
  int64_t first = record.steps.empty() ? 0 : record.steps.front().number;
  for (const auto& evaluation : record.evaluations) first = std::min(first, evaluation.step);
  return {static_cast<double>(first), static_cast<double>(record.steps_done), kLeft, kWidth - kRight};
}

/// The axis of values from the least to the largest; those that are not finite have no place on it.
Scale value_scale(const std::vector<double>& values) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const double value : values)
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  if (low > high) low = high = 0;
  return {low, high, kChartHeight - kBottom, kTop};
}

ChartScales loss_scales(const TrainingRecord& record) {
  std::vector<double> losses;
  for (const auto& step : record.steps) losses.push_back(step.result.loss);
  for (const auto& evaluation : record.evaluations) losses.push_back(evaluation.loss);
  for (const auto& [name, loss] : record.baselines) losses.push_back(loss);
  return {step_scale(record), value_scale(losses)};
}

constexpr int kMarks = 5;  ///< that an axis has beside its first

/// So many that neighbouring marks differ, within what fits beside the axis.
int digits_of(const Scale& scale) {
  constexpr int kFewest = 3, kMost = 7;
  const double largest = std::max(std::abs(scale.low), std::abs(scale.high)), apart = scale.high / kMarks - scale.low / kMarks;
  return apart > 0 ? std::clamp(static_cast<int>(std::ceil(std::log10(largest / apart))) + 1, kFewest, kMost) : kMost;
}

void draw_values(Svg& svg, const Scale& y) {
  const int marks = y.high > y.low ? kMarks : 0;
  for (int i = 0; i <= marks; ++i) {
    const double value = std::lerp(y.low, y.high, static_cast<double>(i) / kMarks);
    svg.line(kLeft, y(value), kWidth - kRight, y(value), kGrid);
    svg.text(kLeft - 6, y(value) + 4, fmt::format("{:.{}g}", value, digits_of(y)), "end");
  }
}

/// Steps are whole: of few there are fewer marks.
void draw_steps(Svg& svg, const Scale& x) {
  const auto marks = static_cast<int>(std::clamp<double>(x.high - x.low, 0, kMarks));
  for (int i = 0; i <= marks; ++i) {
    const double step = std::round(std::lerp(x.low, x.high, static_cast<double>(i) / std::max(1, marks)));
    svg.text(x(step), kChartHeight - kBottom + 18, fmt::format("{:.0f}", step), "middle");
  }
}

void draw_axes(Svg& svg, const ChartScales& scales) {
  draw_values(svg, scales.y);
  draw_steps(svg, scales.x);
  svg.line(kLeft, kTop, kLeft, kChartHeight - kBottom, kAxis);
  svg.line(kLeft, kChartHeight - kBottom, kWidth - kRight, kChartHeight - kBottom, kAxis);
}

void draw_dot(Svg& svg, std::pair<double, double> middle, const char* color, const std::string& title = "") {
  svg.box(middle.first - 4, middle.second - 4, 8, 8, color, title);
}

/// At most as many points as pixels, so that long runs give small pages.
std::vector<std::pair<double, double>> loss_points(const TrainingRecord& record, const ChartScales& scales) {
  const size_t stride = std::max<size_t>(1, record.steps.size() / static_cast<size_t>(kWidth));
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < record.steps.size(); i += stride)
    if (std::isfinite(record.steps[i].result.loss))
      points.emplace_back(scales.x(static_cast<double>(record.steps[i].number)), scales.y(record.steps[i].result.loss));
  return points;
}

/// A line through one point alone would not be seen.
void draw_losses(Svg& svg, const TrainingRecord& record, const ChartScales& scales) {
  const auto points = loss_points(record, scales);
  svg.path(points, kTrain);
  if (points.size() == 1) draw_dot(svg, points[0], kTrain);
}

void draw_evaluations(Svg& svg, const TrainingRecord& record, const ChartScales& scales) {
  for (const auto& evaluation : record.evaluations)
    if (std::isfinite(evaluation.loss))
      draw_dot(svg, {scales.x(static_cast<double>(evaluation.step)), scales.y(evaluation.loss)}, kValidation,
               fmt::format("validation at step {}: {:.4f}", evaluation.step, evaluation.loss));
  if (record.evaluations.empty()) return;
  const std::string words = "validation " + number_text(record.evaluations.back().loss, 4);
  svg.box(std::min(kWidth - kRight - 130, kWidth - kRight - Svg::text_width(words, 12) - 12), kTop + 20, 8, 8, kValidation);
  svg.text(kWidth - kRight, kTop + 28, words, "end");
}

void draw_baselines(Svg& svg, const TrainingRecord& record, const ChartScales& scales) {
  for (const auto& [name, loss] : record.baselines) {
    if (!std::isfinite(loss)) continue;
    svg.line(kLeft, scales.y(loss), kWidth - kRight, scales.y(loss), kBaseline, "6 4");
    svg.text(kWidth - kRight, scales.y(loss) - 5, fmt::format("{} baseline {:.4f}", name, loss), "end");
  }
}

}  // namespace

std::string loss_chart(const TrainingRecord& record) {
  if (!record.has_run()) return "<p>No step was run.</p>\n";
  if (record.steps.empty()) return "<p>All steps of this run were skipped.</p>\n";
  Svg svg(kWidth, kChartHeight);
  const ChartScales scales = loss_scales(record);
  draw_axes(svg, scales);
  draw_losses(svg, record, scales);
  svg.text(kWidth - kRight, kTop + 12, "training loss" + (record.loss_unit.empty() ? "" : " (" + record.loss_unit + ")"), "end");
  draw_evaluations(svg, record, scales);
  draw_baselines(svg, record, scales);
  return svg.finish();
}

std::string metric_text(const TrainingRecord& record, const std::string& name, double value) {
  return record.shares.contains(name) ? number_text(value * 100, 2) + " %" : std::isnan(value) ? "nan" : fmt::format("{:.4g}", value);
}

std::string metric_chart(const TrainingRecord& record, const std::string& name) {
  const bool is_share = record.shares.contains(name);
  std::vector<std::pair<int64_t, double>> values;  // by step
  std::vector<double> shown;
  for (const auto& evaluation : record.evaluations)
    if (const auto found = evaluation.metrics.find(name); found != evaluation.metrics.end() && std::isfinite(found->second)) {
      values.emplace_back(evaluation.step, found->second);
      shown.push_back(found->second);
    }
  ChartScales scales{step_scale(record), value_scale(is_share ? std::vector<double>{0, 100} : shown)};
  Svg svg(kWidth, kChartHeight);
  draw_axes(svg, scales);
  std::vector<std::pair<double, double>> points;
  for (const auto& [step, value] : values) {
    points.emplace_back(scales.x(static_cast<double>(step)), scales.y(is_share ? value * 100 : value));
    draw_dot(svg, points.back(), kValidation, fmt::format("{} at step {}: {}", name, step, metric_text(record, name, value)));
  }
  svg.path(points, kValidation);
  svg.text(kWidth - kRight, kTop + 12, fmt::format("validation {}{}", name, is_share ? " (%)" : ""), "end");
  return svg.finish();
}

std::string memory_chart(const std::vector<TrainingRecord::Device>& devices) {
  constexpr double kRow = 52, kBar = 17, kWords = 330;
  Svg svg(kWidth, kTop + static_cast<double>(devices.size()) * kRow + 10);
  int64_t most = 1;
  for (const auto& device : devices)
    most = std::max({most, device.predicted_peak_bytes, device.peak_bytes, limited(device.budget_bytes).value_or(0)});
  const Scale x{0, static_cast<double>(most), kLeft, kWidth - kWords};
  double y = kTop;
  for (const auto& device : devices) {
    const auto predicted = static_cast<double>(device.predicted_peak_bytes), measured = static_cast<double>(device.peak_bytes);
    svg.text(kLeft - 6, y + kBar + 4, device.name, "end");
    svg.box(kLeft, y, x(predicted) - kLeft, kBar, "#b8cbe0");
    svg.box(kLeft, y + kBar + 2, x(measured) - kLeft, kBar, kTrain);
    svg.text(kWidth - kWords + 12, y + 13,
             fmt::format("predicted {} ({} bytes)", bytes_text(device.predicted_peak_bytes), device.predicted_peak_bytes));
    svg.text(kWidth - kWords + 12, y + kBar + 15, fmt::format("measured {} ({} bytes)", bytes_text(device.peak_bytes), device.peak_bytes));
    if (const auto budget = limited(device.budget_bytes)) {
      const double at = x(static_cast<double>(*budget));
      svg.line(at, y - 3, at, y + 2 * kBar + 5, kValidation);
      svg.text(at - 4, y - 5, fmt::format("budget {}", bytes_text(*budget)), "end", 10);
    }
    y += kRow;
  }
  return svg.finish();
}

}  // namespace sluice::training
