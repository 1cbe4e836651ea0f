#include "data/html.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "data/utf8.h"

namespace sluice::data {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool hides_its_content(std::string_view tag) { return is_one_of(tag, {"head", "script", "style", "nav"}); }

bool is_block(std::string_view tag) {
  return is_one_of(tag, {"address", "article", "aside",    "blockquote", "body",   "br",   "caption", "center", "dd", "div",
                         "dl",      "dt",      "fieldset", "figure",     "footer", "form", "h1",      "h2",     "h3", "h4",
                         "h5",      "h6",      "header",   "hr",         "html",   "li",   "main",    "ol",     "p",  "pre",
                         "section", "table",   "tbody",    "td",         "tfoot",  "th",   "thead",   "title",  "tr", "ul"});
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// The code point of "amp", "#8217" or "#x2019"; 0 when it names none.
char32_t entity(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, char32_t>, 24> named{{
      {"amp", '&'},      {"lt", '<'},       {"gt", '>'},        {"quot", '"'},     {"apos", '\''},    {"nbsp", ' '},
      {"mdash", 0x2014}, {"ndash", 0x2013}, {"hellip", 0x2026}, {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201C},
      {"rdquo", 0x201D}, {"laquo", 0xAB},   {"raquo", 0xBB},    {"copy", 0xA9},    {"reg", 0xAE},     {"trade", 0x2122},
      {"bull", 0x2022},  {"middot", 0xB7},  {"pound", 0xA3},    {"euro", 0x20AC},  {"sect", 0xA7},    {"eacute", 0xE9},
  }};
  if (name.starts_with('#')) {
    const bool hex = name.size() > 1 && lower(name[1]) == 'x';
    const std::string_view digits = name.substr(hex ? 2 : 1);
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    const bool scalar = value > 0 && value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
    return error == std::errc() && end == digits.data() + digits.size() && scalar ? static_cast<char32_t>(value) : 0;
  }
  for (const auto& [known, code_point] : named)
    if (known == name) return code_point;
  return 0;
}

/// Collects text: white space becomes one space, and a block's end an empty line, both written only before more text.
class Prose {
 public:
  void character(char c) {
    if (std::isspace(static_cast<unsigned char>(c))) {
      space_ = true;
      return;
    }
    separate();
    text_.push_back(c);
  }
  void code_point(char32_t c) {
    if (c < 0x80) return character(static_cast<char>(c));
    separate();
    append_utf8(text_, c);
  }
  void end_block() { block_ = true; }
  std::string finish() {
    if (!text_.empty()) text_.push_back('\n');
    return std::move(text_);
  }

 private:
  void separate() {
    if (!text_.empty()) text_ += block_ ? "\n\n" : space_ ? " " : "";
    block_ = space_ = false;
  }
  std::string text_;
  bool space_ = false, block_ = false;
};

/// Walks over a page, with `at_` behind what was read.
class Reader {
 public:
  explicit Reader(std::string_view page) : page_(page) {}

  std::string read() {
    while (at_ < page_.size()) {
      const char c = page_[at_];
      if (c == '<' && is_markup()) {
        markup();
      } else if (c == '&') {
        reference();
      } else {
        prose_.character(c);
        ++at_;
      }
    }
    return prose_.finish();
  }

 private:
  /// A '<' before anything else is text, as in "a < b".
  bool is_markup() const {
    const char next = at_ + 1 < page_.size() ? page_[at_ + 1] : ' ';
    return std::isalpha(static_cast<unsigned char>(next)) || next == '/' || next == '!' || next == '?';
  }

  void skip_behind(std::string_view mark) {
    const size_t found = page_.find(mark, at_);
    at_ = found == npos ? page_.size() : found + mark.size();
  }

  void markup() {
    if (page_.substr(at_).starts_with("<!--")) return skip_behind("-->");
    const bool closing = page_.substr(at_).starts_with("</");
    const std::string tag = tag_name(at_ + (closing ? 2 : 1));
    skip_behind(">");
    if (is_block(tag)) prose_.end_block();
    if (!closing && hides_its_content(tag)) skip_element(tag);
  }

  std::string tag_name(size_t begin) const {
    std::string name;
    for (size_t i = begin; i < page_.size() && std::isalnum(static_cast<unsigned char>(page_[i])); ++i) name.push_back(lower(page_[i]));
    return name;
  }

  void skip_element(const std::string& tag) {
    while (at_ < page_.size()) {
      skip_behind("</");
      if (tag_name(at_) == tag) return skip_behind(">");
    }
  }

  void reference() {
    const size_t semicolon = page_.substr(at_, 12).find(';');
    const char32_t c = semicolon == npos ? 0 : entity(page_.substr(at_ + 1, semicolon - 1));
    if (c == 0) {
      prose_.character('&');
      ++at_;
    } else {
      prose_.code_point(c);
      at_ += semicolon + 1;
    }
  }

  std::string_view page_;
  size_t at_ = 0;
  Prose prose_;
};

}  // namespace

std::string html_to_text(std::string_view page) { return Reader(page).read(); }

}  // namespace sluice::data
