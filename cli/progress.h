#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "cli/console.h"
#include "parallel/trainer.h"

namespace sluice::cli {

/// What a line of progress shows.
struct Progress {
  int64_t step = 0, steps = 0;
  parallel::StepResult result;
  double items_per_second = 0;
  std::string item = "token";
  std::optional<double> utilization;  ///< of the peak, where it is known
  bool counts_recomputation = false;  ///< then the utilization is HFU, not MFU
  int64_t peak_bytes = 0;             ///< of the fullest device
  int64_t budget_bytes = 0;           ///< kUnlimited without a budget
};

/// "step 3/20 | loss 5.5412 | norm 1.25 | ..." without time left.
std::string progress_text(const Progress& progress);
/// Seconds as "1:02:03" or "2:03".
std::string duration_text(double seconds);

/// Shows progress: a bar that stays in its line on a terminal, plain lines elsewhere. Honours NO_COLOR and the terminal's width.
class ProgressLine {
 public:
  /// `first` is the number of steps done before.
  ProgressLine(Console& console, int64_t first, int64_t steps);
  ~ProgressLine() { finish(); }
  void show(const Progress& progress);
  /// A line of text that stays.
  void say(const std::string& text);
  /// Leaves the bar's line.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw_bar(const Progress& progress, const std::string& text);
  bool is_due(int64_t step) const;

  Console& console_;
  bool terminal_, color_, bar_shown_ = false;
  int64_t first_, steps_;
  Clock::time_point begin_ = Clock::now(), shown_ = {};
};

}  // namespace sluice::cli
