#include "training/report/html_page.h"

#include <fmt/core.h>

#include "build_config.h"
#include "training/report/svg.h"

namespace sluice::training {

namespace {

constexpr const char* kStyle =
    "body{font-family:sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "h2{margin-top:1.6em;border-bottom:1px solid #ddd}svg{max-width:100%;height:auto;display:block}"
    "pre{background:#f6f6f6;padding:1em;overflow:auto;white-space:pre-wrap}td,th{padding:2px 1.5em 2px 0;text-align:left}"
    ".numbers td+td,.numbers th+th{text-align:right}";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sluice: {}</title>\n<style>{}</style></head>\n"
      "<body>\n<h1>{}</h1>\n{}<p>Sluice {}</p>\n</body></html>\n",
      xml_text(title), kStyle, xml_text(title), body, build::version);
}

std::string html_section(const std::string& title, const std::string& content) {
  return fmt::format("<h2>{}</h2>\n{}", xml_text(title), content);
}

std::string html_preformatted(const std::string& text) { return fmt::format("<pre>{}</pre>\n", xml_text(text)); }

std::string html_row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, value);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<table class=\"numbers\">\n", cell = "th";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const auto& text : row) html += fmt::format("<{0}>{1}</{0}>", cell, xml_text(text));
    html += "</tr>\n";
    cell = "td";
  }
  return html + "</table>\n";
}

}  // namespace sluice::training
