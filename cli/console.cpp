#include "cli/console.h"

#include <cerrno>
#include <cstring>

#include "cli/messages.h"
#include "core/error.h"

namespace sluice::cli {

void Console::print(const std::string& text) {
  if (is_lost_) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), out_) == text.size();
  if (written && std::fflush(out_) == 0) return;
  is_lost_ = true;
  warn(join("the output cannot be written: ", std::strerror(errno), "; it is dropped from here on, and the training goes on"));
}

}  // namespace sluice::cli
