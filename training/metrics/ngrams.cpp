#include "training/metrics/ngrams.h"

#include <algorithm>

#include "core/utf8.h"

namespace sluice::training {

namespace {

/// The character at the start of `text`, or one byte that belongs to none.
std::string_view first_character(std::string_view text) { return text.substr(0, std::max<size_t>(1, character_length(text))); }

/// Source  The Unicode Standard 15.0, White_Space, and U+001C to U+001F, which Python splits at, too.
bool is_white_space(std::string_view character) {
  if (character.size() == 1) return (character[0] >= '\t' && character[0] <= '\r') || (character[0] >= '\x1C' && character[0] <= ' ');
  if (character == "\u1680" || character == "\u2028" || character == "\u2029" || character == "\u202F" || character == "\u205F" ||
      character == "\u3000")
    return true;
  return character == "\xC2\x85" || character == "\xC2\xA0" || (character >= "\u2000" && character <= "\u200A");
}

/// Calls visit(offset, character) for each character that is not white space.
template <class Visit>
void for_each_visible(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = first_character(text.substr(at));
    if (!is_white_space(character)) visit(at, character);
    at += character.size();
  }
}

}  // namespace

void Units::add(std::string_view unit, std::string_view separator) {
  text_.append(unit).append(separator);
  ends_.push_back(text_.size());
}

std::string_view Units::ngram(int64_t first, int64_t n) const {
  const size_t begin = ends_[static_cast<size_t>(first)], end = ends_[static_cast<size_t>(first + n)];
  return std::string_view(text_).substr(begin, end - begin);
}

NgramCounts count_ngrams(const Units& units, int64_t n) {
  NgramCounts counts;
  for (int64_t first = 0; first < units.ngrams(n); ++first) ++counts[units.ngram(first, n)];
  return counts;
}

int64_t shared_ngrams(const NgramCounts& a, const NgramCounts& b) {
  int64_t shared = 0;
  for (const auto& [ngram, count] : a)
    if (const auto found = b.find(ngram); found != b.end()) shared += std::min(count, found->second);
  return shared;
}

std::vector<std::string_view> split_white_space(std::string_view text) {
  std::vector<std::string_view> pieces;
  size_t begin = 0, end = 0;  // of the last piece
  for_each_visible(text, [&](size_t at, std::string_view character) {
    if (pieces.empty() || at != end) {
      begin = at;
      pieces.emplace_back();
    }
    end = at + character.size();
    pieces.back() = text.substr(begin, end - begin);
  });
  return pieces;
}

std::string_view without_trailing_white_space(std::string_view text) {
  size_t end = 0;
  for_each_visible(text, [&](size_t at, std::string_view character) { end = at + character.size(); });
  return text.substr(0, end);
}

Units characters(std::string_view text) {
  Units units;
  for_each_visible(text, [&](size_t, std::string_view character) { units.add(character); });
  return units;
}

Units words(std::span<const std::string> words) {
  Units units;
  for (const auto& word : words) units.add(word, " ");
  return units;
}

}  // namespace sluice::training
