#pragma once
#include <optional>
#include <vector>

#include "parallel/plan/search.h"

namespace sluice::parallel {

/// A quick answer to "how long would these nodes take as that stage?", for cuts: sums over nodes, with as much rematerialization as the
/// stage's micro-batches in flight ask for. The bytes are an estimate; whoever takes a cut checks it by device_peak_bytes.
/// Cost     of nodes that the budget rules out whatever is recomputed: O(1); of others a pass over them, sorted where some are recomputed.
/// Threads  any.
class CutOracle {
 public:
  /// `share` of each device's budget may be used, divided among its stages. `fine` recomputation holds one node's tape at a time and the
  /// values between nodes, otherwise that of all recomputed nodes. A stage also takes the share `waits` of what crosses its two ends,
  /// there and back: where transfers are long, a schedule with few micro-batches in flight waits for them.
  struct Estimate {
    double share = 1;
    bool fine = false;
    double waits = 0;
  };
  CutOracle(const PlanProblem& problem, const ModelCosts& costs, const Schedule& schedule, const Estimate& estimate);

  /// Seconds a micro-batch, or nothing when the budget does not do. A stage with more nodes may take less where fewer bytes arrive: then
  /// it has to recompute less.
  std::optional<double> seconds(int stage, int first, int end) const;
  /// The same without the recomputation that a budget asks for: what more nodes never take less than.
  double least_seconds(int stage, int first, int end) const;

 private:
  /// Sums of bytes over runs of nodes: whole numbers, so exact.
  class Sums {
   public:
    void add(double bytes) { before_.push_back(before_.back() + bytes); }  ///< of the next node
    double over(int first, int end) const { return before_[end] - before_[first]; }

   private:
    std::vector<double> before_{0};
  };
  /// Sums of seconds over runs of nodes, added one after the other as a stage adds them: a difference of sums would be rounded otherwise.
  class SecondsOver {
   public:
    void add(double seconds) { of_node_.push_back(seconds); }
    /// After the last node: keeps all sums where that takes some megabytes only.
    void keep_sums();
    double over(int first, int end) const;

   private:
    std::vector<double> of_node_;
    std::vector<std::vector<double>> sums_;  ///< by first node and number of nodes; may be empty
  };
  /// The nodes as one kind of device takes them.
  struct Nodes {
    Nodes(const Topology& topology, const ModelCost& model, bool split, const std::vector<bool>& fixed);
    SecondsOver work;                                ///< with the recomputation that is fixed
    std::vector<double> kept, recompute, passing;    ///< bytes, seconds, bytes
    std::vector<double> spared;                      ///< bytes that fine recomputation does not keep
    std::vector<int> cheapest_first, rank;           ///< by seconds of recomputation for a byte
    Sums state, always, in_flight, deferred, spare;  ///< bytes: kept of one micro-batch where that is fixed, else of each in flight
  };
  double least_bytes(const Nodes& nodes, int stage, int first, int end) const;
  double passing_bytes(const Nodes& nodes, int first, int end) const;
  double waiting_seconds(int stage, int first, int end) const;
  std::optional<double> recompute_seconds(const Nodes& nodes, int stage, int first, int end, double missing) const;
  /// Bytes of one node that its recomputation saves.
  double saving(const Nodes& nodes, int stage, int node) const {
    return fine_ ? in_flight_[stage] * nodes.spared[node] : (in_flight_[stage] - 1) * nodes.kept[node];
  }

  std::vector<Nodes> kinds_;
  std::vector<double> arriving_;                     // by node
  std::vector<int> kind_;                            // by stage
  std::vector<double> limit_, in_flight_, waiting_;  // by stage
  std::vector<Link> before_, after_;                 // by stage: to the stages on both sides
  bool may_choose_ = false, fine_ = false;
  double waits_ = 0;
};

}  // namespace sluice::parallel
