#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "core/utf8.h"
#include "data/parallel/gettext.h"

namespace sluice::data {

namespace {

constexpr uint32_t kMagic = 0x950412DE;
constexpr size_t kHeaderBytes = 28, kRowBytes = 8;  // a row of a table is the length and the offset of a string

/// The 32-bit numbers of a file, in the byte order that its first one tells.
class MoFile {
 public:
  MoFile(std::string name, std::string_view bytes) : name_(std::move(name)), bytes_(bytes) {
    require<DataError>(bytes_.size() >= kHeaderBytes, name_, ": needs the ", kHeaderBytes, " bytes of a .mo header, got ", bytes_.size(),
                       "; fetch the file again");
    if (number(0) == kMagic) return;
    is_big_endian_ = true;
    require<DataError>(number(0) == kMagic, name_, ": byte 0: is not a .mo file (no magic number); of a .po file make one with msgfmt");
  }

  uint32_t number(size_t at) const {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes_[at + i])} << 8 * (is_big_endian_ ? 3 - i : i);
    return value;
  }

  void check_table(size_t field, uint32_t rows) const {
    const uint64_t begin = number(field), end = begin + uint64_t{rows} * kRowBytes;
    require<DataError>(end <= bytes_.size(), name_, ": byte ", field, ": a table of ", rows, " strings at ", begin,
                       " ends beyond the file of ", bytes_.size(), " bytes; the file is cut or damaged, fetch it again");
  }

  /// The string of a row, which a NUL follows. `left` is what the strings of a table may still have together: a damaged file could name
  /// the same bytes thousands of times.
  std::string_view string(size_t row, size_t& left) const {
    const uint64_t length = number(row), begin = number(row + 4);
    require<DataError>(begin + length < bytes_.size(), name_, ": byte ", row, ": a string of ", length, " bytes at ", begin,
                       " ends beyond the file of ", bytes_.size(), " bytes; the file is cut or damaged, fetch it again");
    require<DataError>(bytes_[begin + length] == '\0', name_, ": byte ", begin + length,
                       ": needs the NUL that ends a string, got byte value ", int{static_cast<uint8_t>(bytes_[begin + length])},
                       "; the file is damaged, fetch it again");
    require<DataError>(length <= left, name_, ": byte ", row, ": its strings have more bytes than the file of ", bytes_.size(),
                       "; the file is damaged, fetch it again");
    left -= length;
    const std::string_view text = bytes_.substr(begin, length);
    const size_t invalid = first_invalid_utf8(text);
    require<DataError>(invalid == std::string_view::npos, name_, ": byte ", begin + invalid,
                       " is not valid UTF-8; compile the catalogue again: "
                       "msgconv -t UTF-8 FILE.po | msgfmt -");
    return text;
  }

 private:
  std::string name_;
  std::string_view bytes_;
  bool is_big_endian_ = false;
};

std::string_view without_context(std::string_view message) {
  const size_t end = message.find('\4');
  return end == std::string_view::npos ? message : message.substr(end + 1);
}

/// The singular of a message, and form 0 of a translation.
std::string first_form(std::string_view text) { return std::string(text.substr(0, text.find('\0'))); }

}  // namespace

void check_charset(const std::string& name, std::string_view header) {
  constexpr std::string_view kField = "charset=";
  const size_t field = header.find(kField);
  if (field == std::string_view::npos) return;
  const std::string_view rest = header.substr(field + kField.size());
  std::string charset(rest.substr(0, rest.find_first_of(" \t\r\n;")));
  std::transform(charset.begin(), charset.end(), charset.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  const bool is_known = charset == "UTF-8" || charset == "UTF8" || charset == "ASCII" || charset == "US-ASCII" || charset == "CHARSET";
  require<DataError>(is_known, name, ": needs charset UTF-8, got ", charset, "; convert the catalogue: msgconv -t UTF-8 FILE.po");
}

CatalogueEntries parse_mo(const std::string& name, std::string_view bytes) {
  const MoFile file(name, bytes);
  const uint32_t revision = file.number(4), count = file.number(8), major = revision >> 16;
  require<DataError>(major <= 1, name, ": byte 4: needs major revision 0 or 1 of the format, got ", major, "; compile it again: msgfmt");
  file.check_table(12, count);
  file.check_table(16, count);
  const size_t messages = file.number(12), translations = file.number(16);
  size_t messages_left = bytes.size(), translations_left = bytes.size();
  CatalogueEntries entries;
  for (size_t i = 0; i < count; ++i) {
    // The header entry is the first: messages are sorted. Its charset is told before what it makes malformed.
    const size_t length = file.number(translations + i * kRowBytes), begin = file.number(translations + i * kRowBytes + 4);
    if (i == 0 && file.number(messages) == 0 && begin < bytes.size()) check_charset(name, bytes.substr(begin, length));
    std::string message = first_form(without_context(file.string(messages + i * kRowBytes, messages_left)));
    std::string translation = first_form(file.string(translations + i * kRowBytes, translations_left));
    if (!message.empty()) entries.push_back({std::move(message), std::move(translation)});
  }
  return entries;
}

}  // namespace sluice::data
