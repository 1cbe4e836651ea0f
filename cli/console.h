#pragma once
#include <cstdio>
#include <string>

namespace sluice::cli {

/// Where a training tells what it does. Output that fails, to a closed pipe or a full disk, is not worth a training: it is dropped from
/// then on, with one warning.
class Console {
 public:
  /// `is_silent`: prints nothing, as ranks but the root.
  explicit Console(std::FILE* out, bool is_silent = false) : out_(out), is_lost_(is_silent) {}
  /// Writes the text and flushes.
  void print(const std::string& text);
  std::FILE* file() const { return out_; }

 private:
  std::FILE* out_;
  bool is_lost_;
};

}  // namespace sluice::cli
