#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::cli {

/// "8GiB", "1.5 MB", "4096" -> bytes; nothing when the text is no size below 2^63, or
/// is a part of a byte.
std::optional<int64_t> parse_bytes(std::string_view text);

}  // namespace sluice::cli
