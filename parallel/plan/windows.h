#pragma once
#include <vector>

#include "parallel/plan/search.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

inline constexpr double kWorthIt = 1e-3;  ///< of a step: what a wider window has to save

struct TimedWindow {
  double seconds;  ///< of a step
  TransferWindow window;
};

/// The windows of transfers that a plan which the search found may have, the narrowest first: each next one takes more bytes and saves what is
/// worth them. The last comes within kWorthIt of a step whose receives are all posted at once, or is the widest that is tried.
/// Cost     a simulated step for each window that is tried, eight at most.
/// Threads  any.
std::vector<TimedWindow> windows_worth_their_bytes(const PlanProblem& problem, const FoundPlan& found);

}  // namespace sluice::parallel
