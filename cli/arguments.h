#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace sluice::cli {

/// What the command line gave to a command: its argument and the values of its flags.
/// Errors  UsageError naming flag and value where a number is asked for and none came.
class Arguments {
 public:
  std::string argument;                                                 ///< CONFIG or CHECKPOINT
  std::map<std::string, std::vector<std::string>, std::less<>> values;  ///< by flag; a switch that was given holds one empty value

  bool has(std::string_view flag) const { return values.contains(flag); }
  /// The flag's value, or `otherwise` when it was not given.
  std::string text(std::string_view flag, const std::string& otherwise = "") const;
  std::vector<std::string> list(std::string_view flag) const;
  int64_t integer(std::string_view flag, int64_t otherwise, int64_t minimum, int64_t maximum = INT64_MAX) const;
  double number(std::string_view flag, double otherwise, double minimum, double maximum) const;
};

}  // namespace sluice::cli
