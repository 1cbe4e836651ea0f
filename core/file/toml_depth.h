#pragma once
#include <string>
#include <string_view>

namespace sluice {

/// Refuses TOML with a key of more parts than any real file has: a parser makes a table of each part, and their destruction, one within the
/// other, ends the process when there are tens of thousands. (Nested lists and inline tables toml++ limits itself.)
/// Errors  UsageError naming file and line.
void check_toml_depth(std::string_view toml, const std::string& file);

}  // namespace sluice
