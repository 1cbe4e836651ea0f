#include "parallel/run/graph_choice.h"

#include <fmt/core.h>

#include <algorithm>

namespace sluice::parallel {

bool GraphChoice::next() const {
  if (wanted_ == CudaGraphs::off || steps_ < kWarmUp) return false;
  if (wanted_ == CudaGraphs::on || steps_ < kWarmUp + kInstantiations) return true;
  if (is_trial()) return (steps_ - kWarmUp - kInstantiations) % 2 != 0;
  return seconds(true) < seconds(false);
}

void GraphChoice::note(double seconds) {
  if (is_trial()) trials_[next() ? 1 : 0].push_back(seconds);
  ++steps_;
}

double GraphChoice::seconds(bool with_graphs) const {
  auto trials = trials_[with_graphs ? 1 : 0];
  if (trials.empty()) return 0;
  const auto middle = trials.begin() + static_cast<std::ptrdiff_t>(trials.size() / 2);
  std::ranges::nth_element(trials, middle);
  return *middle;
}

std::string GraphChoice::text() const {
  if (wanted_ != CudaGraphs::automatic) return wanted_ == CudaGraphs::on ? "on" : "off";
  if (!is_made()) return fmt::format("auto: not decided yet, which takes {} steps", kStepsUntilMade);
  return fmt::format("auto: {}, {:.2f} ms a step with graphs, {:.2f} ms without", next() ? "on" : "off", seconds(true) * 1e3,
                     seconds(false) * 1e3);
}

}  // namespace sluice::parallel
