#pragma once
#include <string>

#include "parallel/plan.h"
#include "training/report/svg.h"

namespace sluice::cli {

/// A plan and what it will do.
struct PlannedStep {
  const layers::Graph& graph;
  const parallel::Plan& plan;
  const parallel::Prediction& prediction;
  std::vector<double> node_seconds;  ///< by node: forward and backward of a micro-batch
};

/// Timeline, memory over time and partition, one below another. Of a plan that does not fit: the partition alone.
training::Svg plan_plots(const PlannedStep& step);

/// The same with the numbers, as one self-contained HTML page.
std::string plan_page(const PlannedStep& step);

}  // namespace sluice::cli
