#include "core/utf8.h"

#include <cstdint>
#include <cstring>

namespace sluice {

namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  // Overlong forms, surrogates and values above U+10FFFF show in the second byte.
  const bool excluded = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
                        (lead == 0xF4 && byte(1) > 0x8F);
  return excluded ? 0 : length;
}

size_t first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word;
    if (at + sizeof word <= text.size()) {  // eight ASCII bytes at once
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

size_t character_start(std::string_view text, size_t offset) {
  if (offset >= text.size()) return text.size();
  while (offset > 0 && is_continuation(text[offset])) --offset;
  return offset;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    continuation(0);
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    continuation(6);
    continuation(0);
  } else {
    put(0xF0 | (c >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace sluice
