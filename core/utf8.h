#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// Offset of the first byte that does not belong to well-formed UTF-8 (so also of an overlong form, a surrogate or a cut sequence);
/// npos when there is none.
/// Source  The Unicode Standard 15.0, table 3-7.
size_t first_invalid_utf8(std::string_view text);

/// Bytes of the well-formed character at the start of `text`, 0 when there is none. `text` must not be empty.
size_t character_length(std::string_view text);

/// The largest offset <= `offset` at which a character of well-formed UTF-8 begins or the text ends.
size_t character_start(std::string_view text, size_t offset);

/// Appends one code point. `code_point` must be a Unicode scalar value.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace sluice
