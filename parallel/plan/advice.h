#pragma once
#include <string>

#include "parallel/plan/options.h"

namespace sluice::parallel {

/// The nearest changes with which a training that does not fit would: rematerialization, another partition than a given one, more
/// micro-batches, more devices of the same kind, a smaller mini-batch; each with all fields of PlanOptions to set. Empty when none of them
/// helps.
/// Cost    a plan and a counted step for every change that is tried; of large models only the first ones are.
std::string nearest_that_fits(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options);

}  // namespace sluice::parallel
