#pragma once
#include <string>
#include <string_view>

namespace sluice::data {

inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// What a gzip file's bytes unpack to. Memory grows as they unpack, to `most_bytes` at most.
/// Errors  DataError, `name` (the file) first, for bytes that are no whole, sound gzip file of one member, or unpack to more.
std::string gunzip(const std::string& name, std::string_view bytes, size_t most_bytes);

/// The first `count` of those bytes, or fewer when there are fewer; what follows is not looked at.
std::string gunzip_start(const std::string& name, std::string_view bytes, size_t count);

}  // namespace sluice::data
