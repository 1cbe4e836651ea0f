#include "cli/search_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

namespace sluice::cli {

namespace {

constexpr double kFirstSeconds = 2, kFirstLineSeconds = 5, kSecondsBetweenShows = 10;
constexpr size_t kLineWidth = 79;

}  // namespace

SearchLine::SearchLine(std::FILE* out)
    : out_(out), terminal_(isatty(fileno(out)) != 0), next_seconds_(terminal_ ? kFirstSeconds : kFirstLineSeconds) {}

SearchLine::~SearchLine() {
  if (width_ == 0) return;
  std::fprintf(out_, "\r%*s\r", static_cast<int>(width_), "");
  std::fflush(out_);
}

void SearchLine::show(const parallel::SearchProgress& progress) {
  if (progress.seconds < next_seconds_) return;
  const std::string best = progress.best_seconds > 0 ? fmt::format(", best step so far {:.4g} s", progress.best_seconds) : "";
  std::string text = fmt::format("planning for {:.0f} s: {}{}", progress.seconds, progress.doing, best);
  if (terminal_) {
    text.resize(std::min(text.size(), kLineWidth));
    fmt::print(out_, "\r{:<{}}", text, width_);
    width_ = std::max(width_, text.size());
  } else {
    fmt::print(out_, "{}\n", text);
    next_seconds_ = progress.seconds + kSecondsBetweenShows;
  }
  std::fflush(out_);
}

}  // namespace sluice::cli
