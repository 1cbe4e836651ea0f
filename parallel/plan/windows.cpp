#include "parallel/plan/windows.h"

#include "parallel/plan/stage_chain.h"
#include "parallel/program/simulate.h"

namespace sluice::parallel {

std::vector<TimedWindow> windows_worth_their_bytes(const PlanProblem& problem, const FoundPlan& found) {
  constexpr int kWidest = 64;
  const Schedule schedule = in_segments(found.schedule, found.segments);
  const Layout layout{problem.topology, found.partition, schedule.device_of_stage, found.rematerialize, schedule.device_count(), true};
  const auto costs = simulation_costs(layout, problem.costs.at(found.micro_batches), problem.links, found.peak_bytes);
  const auto seconds = [&](const TransferWindow& window) {
    return simulate(lower(layout.topology, layout.partition, schedule, layout.rematerialize, window), costs).seconds;
  };
  const double open = seconds(kOpenWindow);
  std::vector<TimedWindow> windows{{seconds({}), {}}};
  for (int actions = 2; windows.back().seconds > open * (1 + kWorthIt) && actions <= kWidest; actions *= 2) {
    const TransferWindow wider{actions, actions};
    const double shorter = seconds(wider);
    if (shorter < windows.back().seconds * (1 - kWorthIt)) windows.push_back({shorter, wider});
  }
  return windows;
}

}  // namespace sluice::parallel
