#include "training/report/time_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace sluice::training {

namespace {

constexpr size_t kLongestName = 18;

/// A unit in which the numbers of an axis are short.
struct Unit {
  double factor;
  const char* name;
};
Unit unit_of(double seconds) { return seconds >= 1 ? Unit{1, "s"} : seconds >= 1e-3 ? Unit{1e3, "ms"} : Unit{1e6, "us"}; }

/// 1, 2 or 5 times a power of ten, for at most `most` steps up to `end`.
double nice_step(double end, int most) {
  const double rough = end / most, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

void draw_axis(Svg& svg, const TimeRows& rows) {
  const Unit unit = unit_of(rows.seconds);
  constexpr int kMostMarks = 10;
  const double step = nice_step(rows.seconds, kMostMarks);
  svg.line(rows.left, rows.bottom + 2, rows.right(), rows.bottom + 2, kAxis);
  for (int number = 0; number <= kMostMarks && number * step <= rows.seconds * 1.0001; ++number) {
    const double at = number * step;
    svg.line(rows.x(at), rows.bottom + 2, rows.x(at), rows.bottom + 6, kAxis);
    const bool at_edge = rows.x(at) > rows.right() - 20;
    svg.text(rows.x(at), rows.bottom + 17, fmt::format("{:.6g} {}", at * unit.factor, unit.name), at_edge ? "end" : "middle",
             TimeRows::kTextSize);
  }
}

}  // namespace

TimeRows::TimeRows(const parallel::Trace& trace, double tallest, double shortest, double end_seconds) {
  constexpr double kAllRows = 900;
  const auto count = static_cast<double>(std::max<size_t>(1, trace.device_names.size()));
  height = std::clamp(kAllRows / count, shortest, tallest);
  size_t longest = 6;
  for (const auto& name : trace.device_names) longest = std::max(longest, std::min(kLongestName, name.size()));
  left = Svg::text_width(std::string(longest, 'm'), kTextSize) + 14;
  seconds = end_seconds > 0 ? end_seconds : trace.seconds > 0 ? trace.seconds : 1;
  bottom = kHeader + count * height;
}

size_t TimeRows::label_step() const { return static_cast<size_t>(std::ceil((kTextSize + 1) / height)); }

Svg plot_of_rows(const TimeRows& rows, const std::string& title, const std::string& result) {
  Svg svg(TimeRows::kWidth, rows.bottom + TimeRows::kAxisHeight + TimeRows::kLegendHeight);
  svg.text(8, 19, title, "start", 14);
  svg.text(rows.right(), 19, result, "end", 12);
  return svg;
}

void draw_labels(Svg& svg, const parallel::Trace& trace, const TimeRows& rows) {
  for (size_t device = 0; device < trace.device_names.size(); device += rows.label_step()) {
    std::string name = trace.device_names[device];
    if (name.size() > kLongestName) name = fmt::format("..{}", name.substr(name.size() - kLongestName + 2));
    svg.text(rows.left - 6, rows.top(device) + rows.box_height() / 2 + 3.5, name, "end", TimeRows::kTextSize);
  }
  draw_axis(svg, rows);
}

/// A colour mixed with white: 0 = itself, 1 = white.
std::string lighter(unsigned color, double share) {
  const auto mixed = [&](int shift) {
    const double channel = color >> shift & 255;
    return static_cast<int>(std::lround(channel + (255 - channel) * share));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(16), mixed(8), mixed(0));
}

std::string time_text(double seconds) {
  const Unit unit = unit_of(seconds);
  return fmt::format("{:.4g} {}", seconds * unit.factor, unit.name);
}

}  // namespace sluice::training
