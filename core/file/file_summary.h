#pragma once
#include <cstdint>
#include <string>

namespace sluice {

/// What a file holds, short: its length and the hash of its bytes.
struct FileSummary {
  int64_t bytes = 0;
  std::string hash;
  bool operator==(const FileSummary&) const = default;
};

}  // namespace sluice
