#include "parallel/plan/search_watch.h"

#include <utility>

#include "core/steady_clock.h"

namespace sluice::parallel {

namespace {

constexpr double kSecondsBetweenReports = 0.2;

}  // namespace

SearchWatch::SearchWatch(double limit_seconds, Report report)
    : limit_seconds_(limit_seconds), report_(std::move(report)), began_(steady_seconds()) {}

double SearchWatch::elapsed() const { return steady_seconds() - began_; }

void SearchWatch::begin(std::string doing) {
  progress_.doing = std::move(doing);
  report_if_due();
}

void SearchWatch::check() {
  if (limit_seconds_ <= 0 && !report_) return;
  report_if_due();
  if (is_over()) throw SearchTimeOver();
}

void SearchWatch::report_if_due() {
  if (!report_) return;
  progress_.seconds = elapsed();
  if (progress_.seconds - reported_ < kSecondsBetweenReports) return;
  reported_ = progress_.seconds;
  report_(progress_);
}

}  // namespace sluice::parallel
