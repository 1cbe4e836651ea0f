#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Text with the letters that XML keeps for itself escaped.
std::string xml_text(std::string_view text);

/// A drawing of one size, in pixels from the upper left corner, as inline SVG.
class Svg {
 public:
  Svg(double width, double height);

  /// `title` shows when the pointer rests on the box.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view title = "");
  void line(double x0, double y0, double x1, double y1, std::string_view stroke, std::string_view dashes = "");
  void path(const std::vector<std::pair<double, double>>& points, std::string_view stroke);
  /// `anchor` is start, middle or end.
  void text(double x, double y, std::string_view words, std::string_view anchor = "start", double size = 12);

  std::string finish() const;

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace sluice::cli
