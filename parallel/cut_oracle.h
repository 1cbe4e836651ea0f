#pragma once
#include <optional>
#include <vector>

#include "parallel/plan_search.h"

namespace sluice::parallel {

/// A quick answer to "how long would these nodes take as that stage?", for cuts: sums over nodes, with as much rematerialization as the
/// stage's micro-batches in flight ask for. The bytes are an estimate; whoever takes a cut checks it by device_peak_bytes.
/// Threads  any.
class CutOracle {
 public:
  /// `share` of each device's budget may be used, divided among its stages. `fine` recomputation holds one node's tape at a time and the
  /// values between nodes, otherwise that of all recomputed nodes.
  CutOracle(const PlanProblem& problem, const ModelCost& model, const Schedule& schedule, double share, bool fine);

  /// Seconds a micro-batch, or nothing when the budget does not do.
  std::optional<double> seconds(int stage, int first, int end) const;

 private:
  std::vector<double> work_, state_, kept_, kept_again_, deferred_, recompute_, arriving_, passing_;  // by node
  std::vector<bool> fixed_;
  std::vector<int> cheapest_first_, rank_;
  std::vector<double> limit_, in_flight_, waiting_;  // by stage
  bool may_choose_ = false, fine_ = false;
};

}  // namespace sluice::parallel
