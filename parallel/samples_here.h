#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "layers/graph.h"
#include "parallel/plan/plan.h"
#include "parallel/run/device_ranks.h"

namespace sluice::parallel {

/// Which samples of a mini-batch of so many are read of an input, from the first to behind the last.
using SamplesHere = std::function<std::pair<int64_t, int64_t>(const std::string& input, int64_t samples)>;

/// Those of the replicas that have a device in this rank, and all of what the loss reads, whose weights are those of the mini-batch.
/// Threads  the function may be called from any, and when graph and plan are gone.
SamplesHere samples_here(const layers::Graph& graph, const Plan& plan, const DeviceRanks& ranks);

}  // namespace sluice::parallel
