#pragma once
#include <string_view>

namespace sluice {

/// UTF-8 text without the byte-order mark that some programs write before it. No copy: a part of `text`.
inline std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace sluice
