#pragma once
#include <cstdint>
#include <vector>

#include "parallel/plan/stage_cost.h"

namespace sluice::parallel {

/// Marks the nodes of one device's stages that are rematerialized so that the device keeps to `budget` bytes under the schedule: those
/// whose recomputation costs the fewest seconds for the bytes that it saves, and no more of them than it takes.
/// Leaves the marks of other devices' nodes as they are.
/// Returns the bytes that are missing, 0 when the device fits; then with the marks that come nearest.
/// Cost    some dozens of passes over the device's nodes and actions.
int64_t choose_rematerialization(const Topology& topology, const ModelCost& model, const Schedule& schedule, const Partition& partition,
                                 int device, int64_t budget, std::vector<bool>& rematerialize);

/// Cuts the nodes of a stage into `segments` runs whose recomputed activations are as equal as can be: sizes of the runs.
std::vector<int> segment_sizes(const ModelCost& model, int first, int end, int segments);

}  // namespace sluice::parallel
