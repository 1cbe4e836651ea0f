#include "cli/report/attention_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "training/report/svg.h"

namespace sluice::cli {

namespace {

constexpr double kCell = 26, kMargin = 10, kLetters = 12, kLegendWidth = 200, kLegendHeight = 12, kLegendRoom = 44;
constexpr const char* kLines = "#d8d8d8";

/// Of a share from 0 to 1 of the largest weight: evenly from white to blue to dark blue (ColorBrewer's Blues), so darker is always more.
std::string colour(double share) {
  constexpr std::array<std::array<double, 3>, 3> kStops{{{255, 255, 255}, {107, 174, 214}, {8, 48, 107}}};
  const double place = std::clamp(share, 0.0, 1.0) * (kStops.size() - 1);
  const auto below = std::min(static_cast<size_t>(place), kStops.size() - 2);
  std::string text = "#";
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format("{:02x}", std::lround(std::lerp(kStops[below][i], kStops[below + 1][i], place - static_cast<double>(below))));
  return text;
}

double widest(const std::vector<std::string>& words) {
  double width = 0;
  for (const auto& word : words) width = std::max(width, training::Svg::text_width(word, kLetters));
  return width;
}

void draw_legend(training::Svg& svg, double x, double y, double most) {
  constexpr int kSteps = 50;
  svg.box(x - 1, y - 1, kLegendWidth + 2, kLegendHeight + 2, kLines);
  for (int i = 0; i < kSteps; ++i)
    svg.box(x + kLegendWidth * i / kSteps, y, kLegendWidth / kSteps, kLegendHeight, colour((i + 0.5) / kSteps));
  svg.text(x, y + kLegendHeight + 14, "0");
  svg.text(x + kLegendWidth, y + kLegendHeight + 14, fmt::format("{:.2f}", most), "end");
  svg.text(x + kLegendWidth + 10, y + kLegendHeight - 1, "weight");
}

/// The corner where row and column 0 meet is (left, top).
void draw_cells(training::Svg& svg, const AttentionPlot& plot, double left, double top, double most) {
  const size_t columns = plot.keys.size();
  for (size_t row = 0; row < plot.queries.size(); ++row)
    for (size_t column = 0; column < columns; ++column) {
      const double weight = plot.weights[row * columns + column];
      svg.box(left + kCell * static_cast<double>(column), top + kCell * static_cast<double>(row), kCell - 1, kCell - 1,
              colour(most > 0 ? weight / most : 0), fmt::format("{} looks at {}: {:.3f}", plot.queries[row], plot.keys[column], weight));
    }
}

training::Svg heat_map(const AttentionPlot& plot) {
  const double most = plot.weights.empty() ? 0 : *std::ranges::max_element(plot.weights);
  const double rise = widest(plot.keys) * std::sqrt(0.5) + kLetters;  // of the columns' names
  const double left = kMargin + widest(plot.queries) + 8, top = kMargin + rise;
  const double right = left + kCell * static_cast<double>(plot.keys.size()),
               bottom = top + kCell * static_cast<double>(plot.queries.size());
  training::Svg svg(std::max(right + rise, left + kLegendWidth + 80), bottom + kLegendRoom);
  for (size_t column = 0; column < plot.keys.size(); ++column)
    svg.rising_text(left + kCell * (static_cast<double>(column) + 0.5), top - 4, plot.keys[column], kLetters);
  for (size_t row = 0; row < plot.queries.size(); ++row)
    svg.text(left - 8, top + kCell * (static_cast<double>(row) + 0.5) + 4, plot.queries[row], "end", kLetters);
  svg.box(left - 1, top - 1, right - left + 1, bottom - top + 1, kLines);  // shows as lines between the cells
  draw_cells(svg, plot, left, top, most);
  draw_legend(svg, left, bottom + 10, most);
  return svg;
}

}  // namespace

std::string html_attention(const AttentionPlot& plot) {
  return fmt::format("<p>{}</p>\n{}", training::xml_text(plot.caption), heat_map(plot).finish());
}

}  // namespace sluice::cli
