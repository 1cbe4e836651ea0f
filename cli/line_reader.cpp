#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file/byte_order_mark.h"

namespace sluice::cli {

bool LineReader::take_line(std::vector<std::string>& lines) {
  const size_t end = text_.find('\n', taken_);
  if (end == std::string::npos && (!is_at_end_ || taken_ == text_.size())) return false;
  const size_t length = (end == std::string::npos ? text_.size() : end) - taken_;
  lines.push_back(text_.substr(taken_, length));
  if (lines.back().ends_with('\r')) lines.back().pop_back();
  if (std::exchange(is_at_begin_, false)) lines.back() = std::string(without_byte_order_mark(lines.back()));
  taken_ = std::min(text_.size(), taken_ + length + 1);
  if (taken_ == text_.size()) {
    text_.clear();
    taken_ = 0;
  }
  return true;
}

bool LineReader::has_more() const {
  pollfd ready{descriptor_, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

void LineReader::read_more() {
  char buffer[1 << 16];
  const ssize_t bytes = read(descriptor_, buffer, sizeof buffer);
  if (bytes < 0 && errno == EINTR) return;
  require<ResourceError>(bytes >= 0, "standard input: cannot be read: ", std::system_category().message(errno));
  is_at_end_ = bytes == 0;
  text_.append(buffer, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
}

std::vector<std::string> LineReader::next(size_t most) {
  std::vector<std::string> lines;
  while (lines.size() < most) {
    if (take_line(lines)) continue;
    if (is_at_end_ || (!lines.empty() && !has_more())) break;
    read_more();
  }
  return lines;
}

}  // namespace sluice::cli
