#include "cli/messages.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"

namespace sluice::cli {

namespace {

std::atomic<int> this_rank = -1;  // of one process

/// In one piece, so that messages of several threads do not mix. What a message quotes may hold any bytes: those that move a terminal's
/// cursor or change its colours are not passed on.
void tell_kind(const char* kind, const std::string& text) {
  const std::string rank = this_rank < 0 ? "" : join("rank ", this_rank.load(), ": ");
  std::string line = std::string("sluice: ") + rank + kind + ": " + text + "\n";
  std::ranges::replace_if(
      line, [](char letter) { return std::iscntrl(static_cast<unsigned char>(letter)) != 0 && letter != '\n' && letter != '\t'; }, '?');
  tell(stderr, line);
}

}  // namespace

void set_rank(int rank) { this_rank = rank; }

void tell_error(const std::string& text) { tell_kind("error", text); }
void warn(const std::string& text) {
  if (this_rank <= 0) tell_kind("warning", text);
}
void note(const std::string& text) {
  if (this_rank <= 0) tell_kind("note", text);
}

void flush_result() {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  require<ResourceError>(written, "standard output: cannot be written: ", std::strerror(errno), "; the result is lost");
}

void tell(std::FILE* out, const std::string& text) { std::fwrite(text.data(), 1, text.size(), out); }

}  // namespace sluice::cli
