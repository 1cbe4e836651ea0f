#include "core/file/toml_depth.h"

#include <algorithm>

#include "core/error.h"

namespace sluice {

namespace {

constexpr int kMostParts = 16;

/// The end of the string that begins at `at`, or of the text.
size_t string_end(std::string_view toml, size_t at) {
  const char quote = toml[at];
  const std::string triple(3, quote);
  const bool is_long = toml.substr(at, 3) == triple;
  for (size_t i = at + (is_long ? 3 : 1); i < toml.size(); ++i) {
    if (toml[i] == '\\' && quote == '"') {
      ++i;
    } else if (is_long ? toml.substr(i, 3) == triple : toml[i] == quote || toml[i] == '\n') {
      return i + (is_long ? 2 : 0);
    }
  }
  return toml.size();
}

}  // namespace

void check_toml_depth(std::string_view toml, const std::string& file) {
  int line = 1, dots = 0;
  for (size_t i = 0; i < toml.size(); ++i) {
    const char letter = toml[i];
    if (letter == '"' || letter == '\'') {
      const size_t end = std::min(string_end(toml, i), toml.size());
      for (; i < end; ++i) line += toml[i] == '\n' ? 1 : 0;
      if (i == toml.size()) return;
    } else if (letter == '#') {
      while (i + 1 < toml.size() && toml[i + 1] != '\n') ++i;
    }
    if (toml[i] == '\n') ++line;
    // A key ends where its value or the next key begins.
    dots = letter == '.' ? dots + 1 : letter == '\n' || letter == '=' || letter == ',' || letter == '{' || letter == '[' ? 0 : dots;
    require(dots < kMostParts, file, ":", line, ": needs keys of at most ", kMostParts, " parts (a.b.c has 3), got more");
  }
}

}  // namespace sluice
