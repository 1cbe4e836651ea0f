#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/byte_units.h"
#include "training/report/time_rows.h"
#include "training/report/timeline.h"
#include "training/report/training_record.h"

namespace sluice::training {

namespace {

using parallel::Trace;
using parallel::TraceEvent;

constexpr const char *kBudget = "#d55e00", *kGround = "#f6f6f6";
constexpr unsigned kMemory = 0x0072b2;
constexpr double kLowestCurve = 20;  ///< in rows below this, a curve says less than a colour

/// Live bytes from a moment on.
struct Level {
  double seconds;
  int64_t bytes;
};

/// A device's live bytes over time: level from the end of an action to the end of the next. What is there after a step was there before.
std::vector<Level> levels_of(const Trace& trace, size_t device) {
  std::vector<Level> levels;
  for (const auto& event : trace.events)
    if (event.device == static_cast<int>(device)) levels.push_back({event.end, event.live_bytes});
  std::ranges::stable_sort(levels, {}, &Level::seconds);
  if (!levels.empty()) levels.insert(levels.begin(), {0, levels.back().bytes});
  return levels;
}

int64_t most_of(const std::vector<Level>& levels) {
  int64_t most = 0;
  for (const auto& level : levels) most = std::max(most, level.bytes);
  return most;
}

/// Draws the memory of one device.
struct MemoryRow {
  Svg& svg;
  const TimeRows& rows;
  double y;
  double top_bytes;
  std::optional<int64_t> budget;  ///< when it lies within the plot

  double height() const { return rows.box_height(); }
  double at(double bytes) const { return y + height() * (1 - bytes / top_bytes); }

  void draw_curve(const std::vector<Level>& levels, double end_seconds) const {
    std::vector<std::pair<double, double>> corners{{rows.x(0), y + height()}};
    for (size_t i = 0; i < levels.size(); ++i) {
      const double bytes = at(static_cast<double>(levels[i].bytes));
      corners.emplace_back(rows.x(levels[i].seconds), bytes);
      corners.emplace_back(rows.x(i + 1 < levels.size() ? levels[i + 1].seconds : end_seconds), bytes);
    }
    corners.emplace_back(corners.back().first, y + height());
    svg.area(corners, lighter(kMemory, 0.6));
    if (budget) svg.line(rows.left, at(static_cast<double>(*budget)), rows.right(), at(static_cast<double>(*budget)), kBudget, "5 3");
  }

  /// Boxes whose darkness stands for bytes; neighbours of one shade are one box.
  void draw_shades(const std::vector<Level>& levels, double end_seconds) const {
    constexpr int kShades = 24, kOver = kShades + 1;
    const auto shade_of = [&](int64_t bytes) {
      if (budget && bytes > *budget) return kOver;
      return static_cast<int>(std::lround(kShades * static_cast<double>(bytes) / top_bytes));
    };
    for (size_t begin = 0, end; begin < levels.size(); begin = end) {
      const int shade = shade_of(levels[begin].bytes);
      for (end = begin + 1; end < levels.size() && shade_of(levels[end].bytes) == shade;) ++end;
      const double from = rows.x(levels[begin].seconds), to = rows.x(end < levels.size() ? levels[end].seconds : end_seconds);
      if (to > from) svg.box(from, y, to - from, height(), shade == kOver ? kBudget : lighter(kMemory, 1 - 0.8 * shade / kShades));
    }
  }
};

}  // namespace

Svg memory_timeline_plot(const Trace& trace, const std::vector<int64_t>& budget_bytes, const TimelineOptions& options) {
  constexpr double kFarAway = 3;  // a budget that is this many times the peak would flatten the curves
  const TimeRows rows(trace, 64, 8, options.seconds);
  const bool is_curve = rows.height >= kLowestCurve;
  int64_t peak = 1, budget = 0;
  for (const auto& event : trace.events) peak = std::max(peak, event.live_bytes);
  for (const int64_t bytes : budget_bytes) budget = std::max(budget, limited(bytes).value_or(0));
  const bool with_budget = budget > 0 && static_cast<double>(budget) <= kFarAway * static_cast<double>(peak);
  const double top = static_cast<double>(with_budget ? std::max(peak, budget) : peak) * (is_curve ? 1.04 : 1);

  Svg svg = plot_of_rows(rows, options.title, is_curve ? fmt::format("a row is {} high", bytes_text(static_cast<int64_t>(top))) : "");
  for (size_t device = 0; device < trace.device_names.size(); ++device) {
    const auto levels = levels_of(trace, device);
    MemoryRow row{svg, rows, rows.top(device), top, std::nullopt};
    if (with_budget && device < budget_bytes.size()) row.budget = limited(budget_bytes[device]);
    svg.box(rows.left, row.y, rows.right() - rows.left, row.height(), kGround);
    is_curve ? row.draw_curve(levels, trace.seconds) : row.draw_shades(levels, trace.seconds);
    if (device % rows.label_step() == 0)
      svg.text(rows.right() - 4, row.y + row.height() - 2, bytes_text(most_of(levels)), "end", std::min(TimeRows::kTextSize, rows.height));
  }
  draw_labels(svg, trace, rows);
  const double y = rows.bottom + TimeRows::kAxisHeight + 4, x = rows.left + (is_curve ? 380 : 480);
  svg.box(rows.left, y, 11, 11, lighter(kMemory, 0.6));
  svg.text(rows.left + 16, y + 9.5,
           is_curve ? "live bytes after each action; the number is their largest"
                    : "the darker, the more live bytes after each action; the number is their largest",
           "start", 11);
  if (budget == 0) return svg;
  if (with_budget && is_curve) svg.line(x, y + 5.5, x + 20, y + 5.5, kBudget, "5 3");
  if (with_budget && !is_curve) svg.box(x, y, 11, 11, kBudget);
  const char* note = !with_budget ? ", far above the plot" : is_curve ? "" : " is passed";
  svg.text(x + 26, y + 9.5, fmt::format("budget {}{}", bytes_text(budget), note), "start", 11);
  return svg;
}

}  // namespace sluice::training
