#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/byte_units.h"

namespace sluice::cli {

namespace {

constexpr int64_t kPlainLines = 100;  ///< of a run, about
constexpr double kSecondsBetweenLines = 10, kSecondsBetweenBars = 0.05;

int terminal_width(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/// One that moves its cursor and knows colours; TERM=dumb says that it does not.
bool is_terminal(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(out)) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60) : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_text(const Progress& progress) {
  const auto& result = progress.result;
  const std::string budget = progress.budget_bytes == kUnlimited ? "" : fmt::format("/{}", bytes_text(progress.budget_bytes));
  const std::string utilization =
      progress.utilization ? fmt::format(" | {} {:.0f}%", progress.counts_recomputation ? "HFU" : "MFU", *progress.utilization * 100) : "";
  return fmt::format("step {}/{} | loss {:.4f} | norm {:.3g} | lr {:.3g} | {:.1f} ms | {:.0f} {}s/s{} | mem {}{} | bubble {:.0f}%",
                     progress.step, progress.steps, result.loss, result.gradient_norm, result.learning_rate, result.seconds * 1e3,
                     progress.items_per_second, progress.item, utilization, bytes_text(progress.peak_bytes), budget, result.bubble * 100);
}

ProgressLine::ProgressLine(Console& console, int64_t first, int64_t steps)
    : console_(console),
      terminal_(is_terminal(console.file())),
      color_(terminal_ && std::getenv("NO_COLOR") == nullptr),
      first_(first),
      steps_(steps) {}

bool ProgressLine::is_due(int64_t step) const {
  if (step == first_ + 1 || step == steps_) return true;
  if (terminal_) return seconds_since(shown_) >= kSecondsBetweenBars;
  return step % std::max<int64_t>(1, (steps_ - first_) / kPlainLines) == 0 || seconds_since(shown_) >= kSecondsBetweenLines;
}

void ProgressLine::show(const Progress& progress) {
  if (!is_due(progress.step)) return;
  const double per_step = seconds_since(begin_) / static_cast<double>(progress.step - first_);
  const std::string text =
      fmt::format("{} | ETA {}", progress_text(progress), duration_text(per_step * static_cast<double>(steps_ - progress.step)));
  shown_ = Clock::now();
  if (terminal_)
    draw_bar(progress, text);
  else
    console_.print(text + "\n");
}

void ProgressLine::draw_bar(const Progress& progress, const std::string& text) {
  constexpr int kBar = 20;
  const auto width = static_cast<size_t>(terminal_width(console_.file()) - 1);
  const int filled = static_cast<int>(progress.step * kBar / std::max<int64_t>(1, steps_));
  const std::string line = fmt::format("[{:<{}}] {}", std::string(static_cast<size_t>(filled), '='), kBar, text).substr(0, width);
  console_.print(fmt::format("\r{}{:<{}}{}", color_ ? "\033[36m" : "", line, width, color_ ? "\033[0m" : ""));
  bar_shown_ = true;
}

void ProgressLine::say(const std::string& text) {
  finish();
  console_.print(text + "\n");
}

void ProgressLine::finish() {
  if (bar_shown_) console_.print("\n");
  bar_shown_ = false;
}

}  // namespace sluice::cli
