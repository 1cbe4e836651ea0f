#include "data/html.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "core/utf8.h"

namespace sluice::data {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool hides_its_content(std::string_view tag) { return is_one_of(tag, {"script", "style", "nav"}); }

/// The other elements that a head may hold have no content.
bool has_content_in_head(std::string_view tag) { return is_one_of(tag, {"noscript", "script", "style", "template", "title"}); }

bool may_stand_in_head(std::string_view tag) {
  return has_content_in_head(tag) || is_one_of(tag, {"base", "basefont", "bgsound", "link", "meta"});
}

bool is_block(std::string_view tag) {
  return is_one_of(tag, {"address", "article", "aside",    "blockquote", "body",   "br",   "caption", "center", "dd", "div",
                         "dl",      "dt",      "fieldset", "figure",     "footer", "form", "h1",      "h2",     "h3", "h4",
                         "h5",      "h6",      "header",   "hr",         "html",   "li",   "main",    "ol",     "p",  "pre",
                         "section", "table",   "tbody",    "td",         "tfoot",  "th",   "thead",   "title",  "tr", "ul"});
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }

struct Tag {
  std::string_view text;  ///< from '<' to '>'
  std::string name;       ///< in small letters; empty for <!...> and <?...>
  bool is_end() const { return text.starts_with("</"); }
};

/// HTML5 lets `</head>` be left out: the first tag that cannot be in a head ends it, too.
bool ends_head(const Tag& tag) {
  if (tag.name.empty()) return false;
  return tag.is_end() ? is_one_of(tag.name, {"head", "body", "html", "br"}) : !may_stand_in_head(tag.name);
}

/// A page of XHTML begins with a declaration of XML, or has the word XHTML in its document type or in the name space of its html tag. Word
/// writes `<?xml:namespace ...>` and other name spaces into HTML.
bool names_xhtml(const Tag& tag) {
  if (tag.text.starts_with("<?xml ")) return true;
  if (tag.name != "html" && !tag.text.starts_with("<!")) return false;
  constexpr std::string_view word = "xhtml";
  return std::search(tag.text.begin(), tag.text.end(), word.begin(), word.end(), [](char a, char b) { return lower(a) == b; }) !=
         tag.text.end();
}

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
    if (is_space(c)) {
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
      if (is_markup()) {
        markup();
      } else if (page_[at_] == '&') {
        reference();
      } else {
        prose_.character(page_[at_++]);
      }
    }
    return prose_.finish();
  }

 private:
  /// A '<' before anything else is text, as in "a < b".
  bool is_markup() const {
    if (at_ >= page_.size() || page_[at_] != '<') return false;
    const char next = at_ + 1 < page_.size() ? page_[at_ + 1] : ' ';
    return std::isalpha(static_cast<unsigned char>(next)) || next == '/' || next == '!' || next == '?';
  }

  void skip_behind(std::string_view mark) {
    const size_t found = page_.find(mark, at_);
    at_ = found == npos ? page_.size() : found + mark.size();
  }

  void markup() {
    if (is_comment()) return skip_behind("-->");
    const Tag tag = read_tag();
    is_xhtml_ = is_xhtml_ || names_xhtml(tag);
    if (is_block(tag.name)) prose_.end_block();
    if (!has_content(tag)) return;
    if (tag.name == "head") return skip_head();
    if (hides_its_content(tag.name)) tag.name == "nav" ? skip_nav() : skip_element(tag.name);
  }

  bool is_comment() const { return page_.substr(at_).starts_with("<!--"); }

  /// HTML5 ignores the slash of `<script src="x.js"/>` and waits for the end tag. In XHTML that is the whole element.
  bool has_content(const Tag& tag) const { return !tag.is_end() && !(is_xhtml_ && tag.text.ends_with("/>")); }

  Tag read_tag() {
    const size_t begin = std::exchange(at_, tag_end());
    const bool is_end = page_.substr(begin).starts_with("</");
    return {page_.substr(begin, at_ - begin), tag_name(begin + (is_end ? 2 : 1))};
  }

  /// Behind the first '>' from here that is in no quoted value, as `content="a > b"` is; behind the first one where a quote stays open.
  size_t tag_end() const {
    char quote = 0, before = 0;
    for (size_t i = at_; i < page_.size(); ++i) {
      const char c = page_[i];
      if (quote == 0 && c == '>') return i + 1;
      if (c == quote) {
        quote = 0;
      } else if (quote == 0 && before == '=' && (c == '"' || c == '\'')) {
        quote = c;
      }
      if (!is_space(c)) before = c;
    }
    const size_t first = page_.find('>', at_);
    return first == npos ? page_.size() : first + 1;
  }

  std::string tag_name(size_t begin) const {
    std::string name;
    for (size_t i = begin; i < page_.size() && std::isalnum(static_cast<unsigned char>(page_[i])); ++i) name.push_back(lower(page_[i]));
    return name;
  }

  /// To the end of the head: a tag that ends it, or text, which HTML5 puts into the body without a tag before it.
  void skip_head() {
    for (skip_space(); is_markup(); skip_space()) {
      if (is_comment()) {
        skip_behind("-->");
        continue;
      }
      const size_t begin = at_;
      const Tag tag = read_tag();
      if (ends_head(tag)) {
        at_ = begin;
        return;
      }
      if (has_content(tag) && has_content_in_head(tag.name)) skip_element(tag.name);
    }
  }

  void skip_space() {
    while (at_ < page_.size() && is_space(page_[at_])) ++at_;
  }

  void skip_element(const std::string& tag) {
    while (at_ < page_.size()) {
      skip_behind("</");
      if (tag_name(at_) == tag) return skip_behind(">");
    }
  }

  /// Unlike a script, whose content is no markup, a nav may have others in it.
  void skip_nav() {
    for (int open = 1; open > 0 && (at_ = std::min(page_.find('<', at_), page_.size())) < page_.size();) {
      if (is_comment()) {
        skip_behind("-->");
      } else if (!is_markup()) {
        ++at_;
      } else if (const Tag tag = read_tag(); tag.name == "nav") {
        open += tag.is_end() ? -1 : has_content(tag) ? 1 : 0;
      } else if (has_content(tag) && hides_its_content(tag.name)) {
        skip_element(tag.name);
      }
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
  bool is_xhtml_ = false;
  Prose prose_;
};

}  // namespace

std::string html_to_text(std::string_view page) { return Reader(page).read(); }

}  // namespace sluice::data
