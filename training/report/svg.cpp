#include "training/report/svg.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/utf8.h"

namespace sluice::training {

namespace {

/// U+FFFE and U+FFFF are UTF-8 and no characters of XML.
bool is_noncharacter(std::string_view letter) { return letter == "\xef\xbf\xbe" || letter == "\xef\xbf\xbf"; }

}  // namespace

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (size_t at = 0, length = 0; at < text.size(); at += std::max<size_t>(length, 1)) {
    length = character_length(text.substr(at));
    const char letter = text[at];
    const auto code = static_cast<unsigned char>(letter);
    if (length == 0 || is_noncharacter(text.substr(at, length)))
      escaped += "\xef\xbf\xbd";
    else if (length > 1)
      escaped += text.substr(at, length);
    else if (letter == '<')
      escaped += "&lt;";
    else if (letter == '>')
      escaped += "&gt;";
    else if (letter == '&')
      escaped += "&amp;";
    else if (letter == '"')
      escaped += "&quot;";
    else if (code >= 0x20 || letter == '\n' || letter == '\t')
      escaped += letter;
  }
  return escaped;
}

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::box(double x, double y, double width, double height, std::string_view fill, std::string_view title) {
  body_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">", x, y, width, height, fill);
  if (!title.empty()) body_ += fmt::format("<title>{}</title>", xml_text(title));
  body_ += "</rect>\n";
}

void Svg::line(double x0, double y0, double x1, double y1, std::string_view stroke, std::string_view dashes) {
  body_ += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"{}\"", x0, y0, x1, y1, stroke);
  if (!dashes.empty()) body_ += fmt::format(" stroke-dasharray=\"{}\"", dashes);
  body_ += "/>\n";
}

void Svg::path(const std::vector<std::pair<double, double>>& points, std::string_view stroke) {
  body_ += "<polyline fill=\"none\" stroke-width=\"1.5\" points=\"";
  for (const auto& [x, y] : points) body_ += fmt::format("{:.2f},{:.2f} ", x, y);
  body_ += fmt::format("\" stroke=\"{}\"/>\n", stroke);
}

void Svg::area(const std::vector<std::pair<double, double>>& points, std::string_view fill) {
  body_ += "<polygon points=\"";
  for (const auto& [x, y] : points) body_ += fmt::format("{:.2f},{:.2f} ", x, y);
  body_ += fmt::format("\" fill=\"{}\"/>\n", fill);
}

void Svg::arc(double x0, double x1, double y, double height, std::string_view stroke) {
  body_ += fmt::format(
      "<path fill=\"none\" stroke-opacity=\"0.6\" d=\"M{:.2f} {:.2f} C{:.2f} {:.2f} {:.2f} {:.2f} {:.2f} {:.2f}\" stroke=\"{}\"/>\n", x0, y,
      x0, y - height, x1, y - height, x1, y, stroke);
}

void Svg::thin_line(double x0, double y0, double x1, double y1, std::string_view stroke) {
  body_ += fmt::format("<path stroke-width=\"0.8\" stroke-opacity=\"0.6\" d=\"M{:.2f} {:.2f} L{:.2f} {:.2f}\" stroke=\"{}\"/>\n", x0, y0,
                       x1, y1, stroke);
}

void Svg::append(const Svg& other) {
  body_ += fmt::format("<g transform=\"translate(0 {:.2f})\">\n{}</g>\n", height_, other.body_);
  height_ += other.height_;
  width_ = std::max(width_, other.width_);
}

void Svg::text(double x, double y, std::string_view words, std::string_view anchor, double size) {
  body_ +=
      fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor, size, xml_text(words));
}

void Svg::rising_text(double x, double y, std::string_view words, double size) {
  body_ +=
      fmt::format("<text transform=\"translate({:.2f} {:.2f}) rotate(-45)\" font-size=\"{}\">{}</text>\n", x, y, size, xml_text(words));
}

double Svg::text_width(std::string_view words, double size) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };  // within a character of UTF-8
  return 0.58 * size * static_cast<double>(words.size() - static_cast<size_t>(std::ranges::count_if(words, continues)));
}

std::string Svg::finish() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width_, height_, body_);
}

}  // namespace sluice::training
