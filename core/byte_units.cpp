#include "core/byte_units.h"

#include <array>
#include <cstdio>

namespace sluice {

std::string bytes_text(int64_t bytes) {
  static constexpr std::array<const char*, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", unit == 0 ? 0 : 2, value, units[unit]);
  return text.data();
}

}  // namespace sluice
