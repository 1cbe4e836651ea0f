#pragma once
#include <string>
#include <vector>

namespace sluice::cli {

/// Lines of a file descriptor, such as standard input, as they come: what was typed or piped so far can be had without waiting for more.
/// Threads  one.
class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  /// The next lines without their ends: at least one, which is waited for, and of those that are there already at most `most`. Empty at the
  /// end. A last line without an end counts. A byte-order mark before the first line is dropped.
  /// Errors  ResourceError when the descriptor cannot be read.
  std::vector<std::string> next(size_t most);

 private:
  bool take_line(std::vector<std::string>& lines);
  bool has_more() const;
  void read_more();

  int descriptor_;
  bool is_at_begin_ = true, is_at_end_ = false;
  std::string text_;  ///< read and not yet taken
  size_t taken_ = 0;  ///< of it
};

}  // namespace sluice::cli
