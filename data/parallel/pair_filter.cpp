#include "data/parallel/pair_filter.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/error.h"
#include "core/utf8.h"

namespace sluice::data {

namespace {

constexpr auto kElements = std::to_array<std::string_view>(
    {"a",   "abbr", "b",     "big",   "blockquote", "body", "br",    "center", "cite",   "code",  "dd",   "div",    "dl",     "dt",
     "em",  "font", "h1",    "h2",    "h3",         "h4",   "h5",    "h6",     "head",   "hr",    "html", "i",      "img",    "kbd",
     "li",  "link", "meta",  "ol",    "p",          "pre",  "s",     "samp",   "script", "small", "span", "strike", "strong", "style",
     "sub", "sup",  "table", "tbody", "td",         "th",   "thead", "title",  "tr",     "tt",    "u",    "ul",     "var"});

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_letter_or_digit(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

/// The letters and digits at the start of a text.
std::string_view leading_word(std::string_view text) {
  return text.substr(0, static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_letter_or_digit) - text.begin()));
}

/// `rest` follows a '<'.
bool begins_tag(std::string_view rest) {
  if (rest.starts_with('/')) rest.remove_prefix(1);
  std::string name(leading_word(rest));
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (std::find(kElements.begin(), kElements.end(), name) == kElements.end()) return false;
  rest.remove_prefix(name.size());
  // Attributes follow after a space; a '<' before the '>' means that this was none.
  const size_t end = rest.find_first_of("<>");
  return end != std::string_view::npos && rest[end] == '>' && (end == 0 || rest.front() == ' ' || rest.front() == '/');
}

/// `rest` follows an '&'.
bool begins_entity(std::string_view rest) {
  const bool is_number = rest.starts_with('#');
  if (is_number) rest.remove_prefix(1);
  constexpr size_t kLongestName = 32;
  const std::string_view word = leading_word(rest.substr(0, kLongestName));
  const bool is_name = word.size() >= 2 && is_letter(word.front());
  return (is_number ? !word.empty() : is_name) && rest.substr(word.size()).starts_with(';');
}

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos; }

/// The count of the reason to leave a pair out, if there is one. Each test relies on the ones before it.
int64_t PairCounts::*reason_against(const TextPair& pair, const PairFilterOptions& options) {
  const auto either = [&](auto test) { return test(pair.source) || test(pair.target); };
  if (either([](const auto& side) { return first_invalid_utf8(side) != std::string_view::npos; })) return &PairCounts::malformed;
  if (either(is_blank)) return &PairCounts::empty;
  const auto [shorter, longer] = std::minmax({characters(pair.source), characters(pair.target)});
  if (longer > options.most_characters) return &PairCounts::too_long;
  if (static_cast<double>(longer) > options.most_ratio * static_cast<double>(shorter)) return &PairCounts::ratio;
  if (either(has_markup)) return &PairCounts::markup;
  return !options.keep_copies && pair.source == pair.target ? &PairCounts::copies : nullptr;
}

struct PairHash {
  size_t operator()(const TextPair& pair) const {
    const std::hash<std::string> hash;
    return hash(pair.source) * 31 + hash(pair.target);
  }
};

}  // namespace

bool has_markup(std::string_view text) {
  for (size_t at = text.find_first_of("<&"); at != std::string_view::npos; at = text.find_first_of("<&", at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    if (text[at] == '<' ? begins_tag(rest) : begins_entity(rest)) return true;
  }
  return false;
}

PairCounts& PairCounts::operator+=(const PairCounts& other) {
  for (const auto count : {&PairCounts::read, &PairCounts::malformed, &PairCounts::empty, &PairCounts::too_long, &PairCounts::ratio,
                           &PairCounts::markup, &PairCounts::copies, &PairCounts::duplicates, &PairCounts::kept})
    this->*count += other.*count;
  return *this;
}

std::string PairCounts::text() const {
  std::string text = join("kept ", kept, " of ", read, " pairs\n");
  const auto say = [&](int64_t count, const char* reason) {
    if (count > 0) text += join("left out ", count, ": ", reason, "\n");
  };
  say(malformed, "malformed UTF-8");
  say(empty, "a side is empty");
  say(too_long, "a side is too long");
  say(ratio, "the lengths of the sides differ too much");
  say(markup, "HTML left in the text");
  say(copies, "the target equals the source");
  say(duplicates, "duplicates");
  return text;
}

ParallelText filter_pairs(ParallelText text, const PairFilterOptions& options, PairCounts& counts) {
  require(options.most_characters >= 1 && options.most_ratio >= 1,
          "pair filter: needs at least 1 character and a ratio of at least 1, got ", options.most_characters, " and ", options.most_ratio);
  const auto is_equal = [](const TextPair* a, const TextPair* b) { return *a == *b; };
  const auto hash = [](const TextPair* pair) { return PairHash()(*pair); };
  std::unordered_set<const TextPair*, decltype(hash), decltype(is_equal)> seen(text.pairs.size(), hash, is_equal);
  size_t kept = 0;
  for (TextPair& pair : text.pairs) {
    if (const auto reason = reason_against(pair, options)) {
      ++(counts.*reason);
      continue;
    }
    if (seen.contains(&pair)) {
      ++counts.duplicates;
      continue;
    }
    // The kept pairs move to the front, where their addresses stay.
    TextPair& place = text.pairs[kept++];
    if (&place != &pair) place = std::move(pair);
    seen.insert(&place);
  }
  counts.read += static_cast<int64_t>(text.pairs.size());
  counts.kept += static_cast<int64_t>(kept);
  text.pairs.resize(kept);
  return text;
}

}  // namespace sluice::data
