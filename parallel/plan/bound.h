#pragma once
#include "parallel/plan/stage_cost.h"

namespace sluice::parallel {

/// Seconds that no plan of a model on some devices can beat, whatever its cut, schedule and rematerialization:
///   - the devices share the work of all micro-batches, each at its own speed;
///   - all micro-batches go through the largest node, on whichever device is best for it;
///   - one micro-batch takes the longest way forward through the graph, and back.
/// A backward counts in one piece or in two, whichever is less. Transfers, recomputation and the optimizer count nothing.
double bound_seconds(const Topology& topology, const ModelCosts& costs, int devices, int micro_batches);

}  // namespace sluice::parallel
