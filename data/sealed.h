#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/content_hash.h"

namespace sluice::data {

/// Bytes that show when they were changed: `kind`, which is a line, a line with the hash of the hash of the payload, and the payload.
inline std::string sealed(std::string_view kind, std::string_view payload) {
  return join(kind, ContentHash().add(payload).text(), "\n", payload);
}

/// The payload, which is a part of `bytes`; none unless they are just what sealed() made of that kind.
inline std::optional<std::string_view> unsealed(std::string_view kind, std::string_view bytes) {
  constexpr size_t kHashLine = 33;
  if (bytes.size() < kind.size() + kHashLine) return std::nullopt;
  const std::string_view payload = bytes.substr(kind.size() + kHashLine);
  return sealed(kind, payload) == bytes ? std::optional(payload) : std::nullopt;
}

}  // namespace sluice::data
