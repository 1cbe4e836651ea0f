#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::training {

/// The colour of axes.
inline constexpr const char* kAxis = "#888888";

/// Text with the letters that XML keeps for itself escaped, and bytes that are no UTF-8 replaced.
std::string xml_text(std::string_view text);

/// A drawing of one size, in pixels from the upper left corner, as inline SVG.
class Svg {
 public:
  Svg(double width, double height);

  /// `title` shows when the pointer rests on the box.
  void box(double x, double y, double width, double height, std::string_view fill, std::string_view title = "");
  void line(double x0, double y0, double x1, double y1, std::string_view stroke, std::string_view dashes = "");
  void path(const std::vector<std::pair<double, double>>& points, std::string_view stroke);
  /// A filled polygon.
  void area(const std::vector<std::pair<double, double>>& points, std::string_view fill);
  /// A thin curve that leaves what lies below visible: from one point to another, by way of a height.
  void arc(double x0, double x1, double y, double height, std::string_view stroke);
  void thin_line(double x0, double y0, double x1, double y1, std::string_view stroke);
  /// `anchor` is start, middle or end.
  void text(double x, double y, std::string_view words, std::string_view anchor = "start", double size = 12);
  /// Text that rises to the right, at 45 degrees, from (x, y).
  void rising_text(double x, double y, std::string_view words, double size = 12);
  /// Another drawing below what is there; the width becomes that of the wider.
  void append(const Svg& other);

  double width() const { return width_; }
  double height() const { return height_; }
  std::string finish() const;

  /// How wide a text will be, roughly.
  static double text_width(std::string_view words, double size);

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace sluice::training
