#pragma once
#include <string>

#include "parallel/run/trace.h"
#include "training/report/svg.h"

namespace sluice::training {

/// Where the rows of a plot lie that shows devices over time: plots of one step have the same edges.
struct TimeRows {
  static constexpr double kWidth = 1200, kRight = 16, kHeader = 30, kAxisHeight = 24, kLegendHeight = 24, kTextSize = 10;

  /// `end_seconds` is the end of the axis; 0 = the step's.
  TimeRows(const parallel::Trace& trace, double tallest, double shortest, double end_seconds);

  double top(size_t device) const { return kHeader + static_cast<double>(device) * height; }
  double x(double at_seconds) const { return left + at_seconds / seconds * (kWidth - kRight - left); }
  double box_height() const { return height > 12 ? height - 4 : height - 1; }
  double right() const { return kWidth - kRight; }
  /// Every n-th row has room for a label.
  size_t label_step() const;

  double height, left, seconds, bottom;
};

/// A plot of rows with room for header, axis and legend; the header is drawn.
Svg plot_of_rows(const TimeRows& rows, const std::string& title, const std::string& result);
/// Names of the devices and the axis of time.
void draw_labels(Svg& svg, const parallel::Trace& trace, const TimeRows& rows);

/// A colour (0xrrggbb) mixed with white: 0 = itself, 1 = white.
std::string lighter(unsigned color, double share);
/// "12.5 ms".
std::string time_text(double seconds);

}  // namespace sluice::training
