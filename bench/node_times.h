#pragma once
#include <string>
#include <vector>

#include "bench/training_step.h"

namespace sluice::bench {

/// What every node of a model takes inside training steps.
/// Units  milliseconds a mini-batch, all micro-batches together; medians over steps.
struct NodeTimes {
  struct Node {
    std::string name;
    double forward_ms = 0;   ///< recomputation too
    double backward_ms = 0;  ///< input and weight gradients
  };
  std::vector<Node> nodes;  ///< in the order of the graph
  double update_ms = 0;     ///< gradient norm, statistics and optimizer
  double step_ms = 0;       ///< wall time of the steps that were traced
};

/// Runs steps in which each node is a stage of its own and reads the executor's trace: on a GPU the times of events on its stream, which
/// count gaps between the kernels of a node too. One warm-up step is left out.
NodeTimes node_times(StepChoice choice, int steps);

double median_of(std::vector<double> values);

}  // namespace sluice::bench
