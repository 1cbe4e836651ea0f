#include "bench/node_times.h"

#include <algorithm>

namespace sluice::bench {

namespace {

using parallel::ActionKind;

/// Milliseconds of each step, by part of it.
struct Samples {
  std::vector<std::vector<double>> forward, backward;  ///< by node
  std::vector<double> update, step;

  explicit Samples(size_t nodes) : forward(nodes), backward(nodes) {}

  void add(const parallel::Trace& trace) {
    for (auto* part : {&forward, &backward})
      for (auto& node : *part) node.push_back(0);
    update.push_back(0);
    step.push_back(1e3 * trace.seconds);
    for (const auto& event : trace.events)
      if (!event.action.is_transfer()) place_of(event.action) += 1e3 * (event.end - event.start);
  }

 private:
  double& place_of(const parallel::Action& action) {
    if (action.micro_batch < 0) return update.back();
    const bool is_forward = action.kind == ActionKind::forward || action.kind == ActionKind::recompute;
    return (is_forward ? forward : backward)[static_cast<size_t>(action.stage)].back();
  }
};

}  // namespace

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

NodeTimes node_times(StepChoice choice, int steps) {
  choice.by_node = true;
  TrainingStep step(choice);
  const auto& nodes = step.model().graph.nodes();
  Samples samples(nodes.size());
  step.run();
  for (int i = 0; i < steps; ++i) {
    step.run();
    samples.add(step.trace());
  }
  NodeTimes times{.nodes = {}, .update_ms = median_of(samples.update), .step_ms = median_of(samples.step)};
  for (size_t i = 0; i < nodes.size(); ++i)
    times.nodes.push_back({nodes[i].name, median_of(samples.forward[i]), median_of(samples.backward[i])});
  return times;
}

}  // namespace sluice::bench
