#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>

namespace sluice::parallel {

using SteadyClock = std::chrono::steady_clock;

/// So many seconds, which may be infinitely many: then they are years.
inline SteadyClock::duration duration_of(double seconds) {
  constexpr double kYears = 1e8;
  return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(std::min(seconds, kYears)));
}

/// The time in so many seconds.
inline SteadyClock::time_point deadline_in(double seconds) { return SteadyClock::now() + duration_of(seconds); }

inline double seconds_since(SteadyClock::time_point then) { return std::chrono::duration<double>(SteadyClock::now() - then).count(); }

/// How long until then; 0 when it is over.
inline double seconds_until(SteadyClock::time_point then) { return std::max(0.0, -seconds_since(then)); }

/// As messages tell them: what is left of a timeout is some microseconds less than what the user set.
inline double told_seconds(double seconds) { return std::round(1e3 * seconds) / 1e3; }

}  // namespace sluice::parallel
