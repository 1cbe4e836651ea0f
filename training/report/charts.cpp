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
  double operator()(double value) const { return high > low ? first + (value - low) / (high - low) * (last - first) : (first + last) / 2; }
};

constexpr double kChartHeight = 300, kBottom = 40;

struct ChartScales {
  Scale x, y;
};

Scale step_scale(const TrainingRecord& record) {
  const double first = record.steps.empty() ? 0 : static_cast<double>(record.steps.front().number);
  return {first, static_cast<double>(record.steps_done), kLeft, kWidth - kRight};
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

void draw_axes(Svg& svg, const ChartScales& scales) {
  constexpr int kLines = 5;
  for (int i = 0; i <= kLines; ++i) {
    const double value = scales.y.low + (scales.y.high - scales.y.low) * i / kLines,
                 step = scales.x.low + (scales.x.high - scales.x.low) * i / kLines;
    svg.line(kLeft, scales.y(value), kWidth - kRight, scales.y(value), kGrid);
    svg.text(kLeft - 6, scales.y(value) + 4, fmt::format("{:.3g}", value), "end");
    svg.text(scales.x(step), kChartHeight - kBottom + 18, fmt::format("{:.0f}", step), "middle");
  }
  svg.line(kLeft, kTop, kLeft, kChartHeight - kBottom, kAxis);
  svg.line(kLeft, kChartHeight - kBottom, kWidth - kRight, kChartHeight - kBottom, kAxis);
}

void draw_dot(Svg& svg, std::pair<double, double> middle, const std::string& title) {
  svg.box(middle.first - 4, middle.second - 4, 8, 8, kValidation, title);
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

void draw_evaluations(Svg& svg, const TrainingRecord& record, const ChartScales& scales) {
  for (const auto& evaluation : record.evaluations)
    if (std::isfinite(evaluation.loss))
      draw_dot(svg, {scales.x(static_cast<double>(evaluation.step)), scales.y(evaluation.loss)},
               fmt::format("validation at step {}: {:.4f}", evaluation.step, evaluation.loss));
  if (record.evaluations.empty()) return;
  svg.box(kWidth - kRight - 130, kTop + 20, 8, 8, kValidation);
  svg.text(kWidth - kRight, kTop + 28, fmt::format("validation {:.4f}", record.evaluations.back().loss), "end");
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
  if (record.steps.empty()) return "<p>No step was run.</p>\n";
  Svg svg(kWidth, kChartHeight);
  const ChartScales scales = loss_scales(record);
  draw_axes(svg, scales);
  svg.path(loss_points(record, scales), kTrain);
  svg.text(kWidth - kRight, kTop + 12, "training loss" + (record.loss_unit.empty() ? "" : " (" + record.loss_unit + ")"), "end");
  draw_evaluations(svg, record, scales);
  draw_baselines(svg, record, scales);
  return svg.finish();
}

std::string metric_text(const TrainingRecord& record, const std::string& name, double value) {
  return record.shares.contains(name) ? fmt::format("{:.2f} %", value * 100) : fmt::format("{:.4g}", value);
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
    draw_dot(svg, points.back(), fmt::format("{} at step {}: {}", name, step, metric_text(record, name, value)));
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
