#include "cli/byte_size.h"

#include <array>
#include <cstdlib>
#include <utility>

namespace sluice::cli {

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 10> units = {{{"", 1},
                                                                                 {"B", 1},
                                                                                 {"KB", 1e3},
                                                                                 {"MB", 1e6},
                                                                                 {"GB", 1e9},
                                                                                 {"TB", 1e12},
                                                                                 {"KiB", 0x1p10},
                                                                                 {"MiB", 0x1p20},
                                                                                 {"GiB", 0x1p30},
                                                                                 {"TiB", 0x1p40}}};
  const std::string digits(text.substr(0, text.find_first_not_of("0123456789.")));
  std::string_view unit = text.substr(digits.size());
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end != '\0') return std::nullopt;
  for (const auto& [name, factor] : units)
    if (unit == name && (value * factor >= 1 || value == 0) && value * factor < 9e18) return static_cast<int64_t>(value * factor);
  return std::nullopt;
}

}  // namespace sluice::cli
