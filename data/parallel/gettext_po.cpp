#include <optional>

#include "core/error.h"
#include "core/file/byte_order_mark.h"
#include "core/utf8.h"
#include "data/parallel/gettext.h"

namespace sluice::data {

namespace {

std::string_view trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r\f\v");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r\f\v") - begin + 1);
}

/// Digits of base 2^`bits` from the front of `text`, at most `most` of them. Empty when there is none.
std::optional<int> take_digits(std::string_view& text, int bits, size_t most) {
  int value = 0;
  size_t taken = 0;
  for (; taken < most && taken < text.size(); ++taken) {
    const char c = text[taken];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
    if (digit >= 1 << bits) break;
    value = value << bits | digit;
  }
  text.remove_prefix(taken);
  return taken > 0 ? std::optional(value) : std::nullopt;
}

/// Takes what follows a backslash from the front of `text`. Empty for what is no escape of C.
std::optional<char> take_escape(std::string_view& text) {
  if (text.empty()) return {};
  constexpr std::string_view kLetters = "ntrabfv\\\"'?", kMeanings = "\n\t\r\a\b\f\v\\\"'?";
  if (const size_t letter = kLetters.find(text.front()); letter != std::string_view::npos) {
    text.remove_prefix(1);
    return kMeanings[letter];
  }
  const bool is_hexadecimal = text.front() == 'x';
  if (is_hexadecimal) text.remove_prefix(1);
  const auto value = is_hexadecimal ? take_digits(text, 4, 2) : take_digits(text, 3, 3);
  return value && *value > 0 && *value < 256 ? std::optional(static_cast<char>(*value)) : std::nullopt;
}

/// Reads entries line by line: comments with flags, then keywords, each with strings on its line and the ones that follow.
class PoReader {
 public:
  PoReader(const std::string& name, CatalogueEntries& entries) : name_(name), entries_(entries) {}

  void read(std::string_view line) {
    ++line_;
    line = trimmed(line);
    if (line.empty()) return;
    if (line.front() == '#') return read_comment(line);
    if (line.front() != '"') line = read_keyword(line);
    check(line.size() >= 2 && line.front() == '"' && line.back() == '"', "needs a string in double quotes");
    append(line.substr(1, line.size() - 2));
  }

  void end() {
    if (message_) {
      check(translation_.has_value(), "needs a msgstr for the entry above");
      const size_t invalid = std::min(first_invalid_utf8(*message_), first_invalid_utf8(*translation_));
      if (message_->empty() && !has_context_) check_charset(name_, *translation_);
      check(invalid == std::string_view::npos, "the entry above is not valid UTF-8; convert the catalogue: msgconv -t UTF-8 FILE.po");
      if (!message_->empty() && !translation_->empty() && !is_fuzzy_) entries_.push_back({std::move(*message_), std::move(*translation_)});
    }
    check(message_ || !has_context_, "needs a msgid after the msgctxt above");
    message_.reset(), translation_.reset(), into_ = nullptr, is_fuzzy_ = has_context_ = has_plural_ = false;
  }

 private:
  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    require<DataError>(ok, name_, ": line ", line_, ": ", parts...);
  }

  void read_comment(std::string_view line) {
    if (translation_) end();
    if (line.starts_with("#,") && line.find("fuzzy") != std::string_view::npos) is_fuzzy_ = true;
    if (line.starts_with("#~")) is_fuzzy_ = false;  // the flag was that of an obsolete entry
  }

  /// Begins the string of a keyword; gives the rest of the line.
  std::string_view read_keyword(std::string_view line) {
    const size_t size = line.find_first_of(" \t\"[");
    const std::string_view keyword = line.substr(0, size);
    line = size == std::string_view::npos ? std::string_view() : line.substr(size);
    if (keyword == "msgctxt" || keyword == "msgid") {
      if (translation_) end();
      check(!message_ && !(keyword == "msgctxt" && has_context_), "needs a msgstr before the next ", keyword);
      has_context_ = has_context_ || keyword == "msgctxt";
      into_ = keyword == "msgid" ? &message_.emplace() : &ignored_;
    } else if (keyword == "msgid_plural") {
      check(message_ && !translation_ && !has_plural_, "needs a msgid before its msgid_plural");
      has_plural_ = true;
      into_ = &ignored_;
    } else {
      check(keyword == "msgstr", "needs msgctxt, msgid, msgid_plural, msgstr, a string or a comment, got '", keyword.substr(0, 40), "'");
      line = begin_translation(line);
    }
    return trimmed(line);
  }

  /// `msgstr`, or of an entry with a plural `msgstr[0]`; the other forms are passed over.
  std::string_view begin_translation(std::string_view line) {
    check(message_.has_value(), "needs a msgid before its msgstr");
    const bool has_number = line.starts_with('[');
    check(has_number == has_plural_, has_plural_ ? "needs msgstr[0] for a message with a plural" : "needs msgid_plural before msgstr[N]");
    check(has_number || !translation_, "needs one msgstr for a msgid, got a second");
    const size_t end = has_number ? line.find(']') : 0;
    const bool is_number = !has_number || (end != std::string_view::npos && end > 1 &&
                                           line.substr(1, end - 1).find_first_not_of("0123456789") == std::string_view::npos);
    check(is_number, "needs msgstr[N] with a number N");
    const bool is_first = !has_number || line.substr(1, end - 1) == "0";
    check(is_first != translation_.has_value(), "needs msgstr[0] once, and before the other forms");
    into_ = is_first ? &translation_.emplace() : &ignored_;
    return has_number ? line.substr(end + 1) : line;
  }

  void append(std::string_view text) {
    check(into_ != nullptr, "needs a keyword such as msgid before a string");
    if (into_ == &ignored_) ignored_.clear();
    while (!text.empty()) {
      const char c = text.front();
      text.remove_prefix(1);
      check(c != '"' && c != '\0', "needs \\\" for a quote within a string, and no NUL");
      const auto meaning = c == '\\' ? take_escape(text) : std::optional(c);
      check(meaning.has_value(), "needs an escape of C after a backslash (\\n, \\t, \\\", \\\\ ...)");
      into_->push_back(*meaning);
    }
  }

  std::string name_;
  CatalogueEntries& entries_;
  size_t line_ = 0;
  bool is_fuzzy_ = false, has_context_ = false, has_plural_ = false;
  std::optional<std::string> message_, translation_;
  std::string ignored_;
  std::string* into_ = nullptr;
};

}  // namespace

CatalogueEntries parse_po(const std::string& name, std::string_view file) {
  CatalogueEntries entries;
  PoReader reader(name, entries);
  file = without_byte_order_mark(file);
  while (!file.empty()) {
    const size_t end = file.find('\n');
    reader.read(file.substr(0, end));
    file.remove_prefix(end == std::string_view::npos ? file.size() : end + 1);
  }
  reader.end();
  return entries;
}

}  // namespace sluice::data
