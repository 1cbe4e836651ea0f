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

ChartScales loss_scales(const TrainingRecord& record) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  const auto include = [&](double loss) { low = std::min(low, loss), high = std::max(high, loss); };
  for (const auto& step : record.steps) include(step.result.loss);
  for (const auto& validation : record.evaluations) include(validation.loss);
  for (const auto& [name, loss] : record.baselines) include(loss);
  return {step_scale(record), {low, high, kChartHeight - kBottom, kTop}};
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

/// At most as many points as pixels, so that long runs give small pages.
std::vector<std::pair<double, double>> loss_points(const TrainingRecord& record, const ChartScales& scales) {
  const size_t stride = std::max<size_t>(1, record.steps.size() / static_cast<size_t>(kWidth));
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < record.steps.size(); i += stride)
    points.emplace_back(scales.x(static_cast<double>(record.steps[i].number)), scales.y(record.steps[i].result.loss));
  return points;
}

}  // namespace

std::string loss_chart(const TrainingRecord& record) {
  if (record.steps.empty()) return "<p>No step was run.</p>\n";
  Svg svg(kWidth, kChartHeight);
  const ChartScales scales = loss_scales(record);
  draw_axes(svg, scales);
  svg.path(loss_points(record, scales), kTrain);
  svg.text(kWidth - kRight, kTop + 12, "training loss" + (record.loss_unit.empty() ? "" : " (" + record.loss_unit + ")"), "end");
  for (const auto& validation : record.evaluations)
    svg.box(scales.x(static_cast<double>(validation.step)) - 4, scales.y(validation.loss) - 4, 8, 8, kValidation,
            fmt::format("validation at step {}: {:.4f}", validation.step, validation.loss));
  if (!record.evaluations.empty()) {
    svg.box(kWidth - kRight - 130, kTop + 20, 8, 8, kValidation);
    svg.text(kWidth - kRight, kTop + 28, fmt::format("validation {:.4f}", record.evaluations.back().loss), "end");
  }
  for (const auto& [name, loss] : record.baselines) {
    const double y = scales.y(loss);
    svg.line(kLeft, y, kWidth - kRight, y, kBaseline, "6 4");
    svg.text(kWidth - kRight, y - 5, fmt::format("{} baseline {:.4f}", name, loss), "end");
  }
  return svg.finish();
}

std::string accuracy_chart(const TrainingRecord& record) {
  Svg svg(kWidth, kChartHeight);
  const ChartScales scales{step_scale(record), {0, 100, kChartHeight - kBottom, kTop}};
  draw_axes(svg, scales);
  std::vector<std::pair<double, double>> points;
  for (const auto& validation : record.evaluations) {
    const auto accuracy = validation.metrics.find("accuracy");
    if (accuracy == validation.metrics.end()) continue;
    const double percent = accuracy->second * 100;
    points.emplace_back(scales.x(static_cast<double>(validation.step)), scales.y(percent));
    svg.box(points.back().first - 4, points.back().second - 4, 8, 8, kValidation,
            fmt::format("accuracy at step {}: {:.2f} %", validation.step, percent));
  }
  svg.path(points, kValidation);
  svg.text(kWidth - kRight, kTop + 12, "validation accuracy (%)", "end");
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
