#include "data/stream_decoder.h"

#include <algorithm>

namespace sluice::data {

namespace {

/// Where the text ends that no further token changes: a tokenizer gives U+FFFD for each byte of a character that is not finished, and of a
/// character up to three bytes are not its last.
size_t certain_end(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  size_t end = text.size();
  for (int bytes = 0; bytes < 3 && text.substr(0, end).ends_with(kReplacement); ++bytes) end -= kReplacement.size();
  return end;
}

}  // namespace

std::string StreamDecoder::up_to(const std::string& text, size_t end) {
  const size_t from = std::min(given_, end);
  given_ = std::max(given_, end);
  return text.substr(from, end - from);
}

std::string StreamDecoder::add(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  const std::string text = tokenizer_.decode(tokens_);
  return up_to(text, certain_end(text));
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_.decode(tokens_);
  return up_to(text, text.size());
}

}  // namespace sluice::data
