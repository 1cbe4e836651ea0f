#include "training/metrics/tokenize_13a.h"

#include "training/metrics/ngrams.h"

namespace sluice::training {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

/// ASCII punctuation that always stands alone: all but the apostrophe, the comma, the dash and the full stop.
bool is_symbol(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

std::string with_symbols_alone(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (!is_symbol(c))
      result += c;
    else
      (result += ' ') += std::string{c, ' '};
  }
  return result;
}

/// Replaces each pair of neighbouring bytes that `matches`, from left to right, by `before` the first, a space between, `after` the second.
/// A byte is part of one pair at most. Bytes serve for characters because only ASCII ones are asked for by name.
template <class Matches>
std::string split_pairs(const std::string& text, const Matches& matches, std::string_view before, std::string_view after) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      result += text[i];
      continue;
    }
    (((result += before) += text[i]) += ' ') += text[i + 1];
    result += after;
    ++i;
  }
  return result;
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string text(without_trailing_white_space(line));
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = with_symbols_alone(" " + text + " ");
  text = split_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ");
  text = split_pairs(
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", "");
  text = split_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ");
  const auto pieces = split_white_space(text);
  return {pieces.begin(), pieces.end()};
}

}  // namespace sluice::training
