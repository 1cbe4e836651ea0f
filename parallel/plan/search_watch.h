#pragma once
#include <exception>
#include <functional>
#include <limits>
#include <string>

namespace sluice::parallel {

/// How far a search for a plan has come.
struct SearchProgress {
  double seconds = 0;       ///< since it began
  std::string doing;        ///< "searching 1f1b with 8 micro-batches (3 of 40)"
  double best_seconds = 0;  ///< of a step, of the best plan so far; 0 when there is none
};

/// Ends a search from within; not an error, and never seen by those who start one.
struct SearchTimeOver : std::exception {};

/// Keeps a search company: tells how far it has come, and ends it when its time is over. A search whose time does not run out does the
/// same with and without one.
/// Threads  one.
class SearchWatch {
 public:
  using Report = std::function<void(const SearchProgress&)>;

  /// `limit_seconds` <= 0: no limit. The report is called some times a second; what it throws ends the search.
  explicit SearchWatch(double limit_seconds = 0, Report report = {});

  /// What comes next, for the report. Ends nothing.
  void begin(std::string doing);
  void found(double best_seconds) { progress_.best_seconds = best_seconds; }
  /// Called within all long loops. Errors  SearchTimeOver.
  void check();
  bool is_over() const { return seconds_left() <= 0; }
  /// Infinite without a limit; may be below 0.
  double seconds_left() const { return limit_seconds_ > 0 ? limit_seconds_ - elapsed() : std::numeric_limits<double>::infinity(); }

 private:
  void report_if_due();
  double elapsed() const;

  double limit_seconds_, reported_ = 0;
  Report report_;
  SearchProgress progress_;
  double began_;  ///< in steady_seconds()
};

}  // namespace sluice::parallel
