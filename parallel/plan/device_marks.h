#pragma once
#include <limits>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/plan/search.h"

namespace sluice::parallel {

/// Cuts each stage into `segments[stage]` segments whose recomputed activations are as equal as can be.
SegmentedPartition in_parts(const ModelCost& model, const Partition& stages, std::vector<int> segments);

/// What one device recomputes of its stages, and in how many segments each of them runs.
struct DeviceMarks {
  int64_t missing = std::numeric_limits<int64_t>::max();  ///< bytes; 0: the device keeps to its budget
  double seconds = kInfinity;                             ///< of recomputation, one micro-batch
  std::vector<int> segments;                              ///< by stage of the device
  std::vector<int> marked;                                ///< nodes
};

/// The marks and segments of a device with the fewest seconds of recomputation that keep to `budget` bytes under the schedule; where none do,
/// those that come nearest. They depend on the device's own nodes alone.
DeviceMarks least_recomputation(const PlanProblem& problem, const ModelCosts& costs, const Schedule& schedule, const Partition& stages,
                                int device, int64_t budget, SearchWatch& watch);

}  // namespace sluice::parallel
