#pragma once
#include <cstdio>
#include <string>

namespace sluice::cli {

/// Where a training tells what it does. Output that fails, to a closed pipe or a full disk, is not worth a training: it is dropped from
/// then on, with one warning.
class Console {
 public:
  explicit Console(std::FILE* out) : out_(out) {}
  /// Writes the text and flushes.
  void print(const std::string& text);
  std::FILE* file() const { return out_; }

 private:
  std::FILE* out_;
  bool is_lost_ = false;
};

}  // namespace sluice::cli
