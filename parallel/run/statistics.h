#pragma once
#include <map>
#include <optional>
#include <vector>

#include "core/ops/moving_average.h"
#include "core/ops/running_statistics.h"
#include "layers/graph.h"
#include "layers/value_type.h"
#include "parallel/program/replication.h"

namespace sluice::parallel {

/// The running statistics of a stage's nodes, and what the micro-batches of a step have seen of them.
/// Threads  one: the device's worker.
class StageStatistics {
 public:
  struct Entry {
    int index;  ///< into Graph::statistics()
    layers::RunningStatistics running;
    layers::RunningStatistics average;                  ///< exponential moving averages of the running ones, when asked for
    std::map<int, std::vector<BatchMoments>> observed;  ///< by micro-batch, until they are committed
  };
  /// Of the nodes [first_node, end_node), as they start.
  StageStatistics(const layers::Graph& graph, int first_node, int end_node, const DevicePtr& device, bool with_averages);

  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<layers::RunningStatistics> running_of(int node, bool averaged) const;
  /// Keeps what the node's module saw of a micro-batch, in each run of what has the statistics.
  /// Errors  UsageError when the module left a place empty.
  void observe(int node, int micro_batch, std::vector<std::vector<BatchMoments>> observed);
  /// Follows the mini-batch with the running statistics: all that was observed, in the order of micro-batches and runs; and with their averages.
  /// A sum of squares of the gradients that is not finite leaves them as they are.
  void commit(const Tensor& sum_of_squares, double ema_decay);
  /// @name What replicas of a stage send each other, to put it together with their own
  /// @{
  /// Means and variances of all micro-batches that were observed here, in the order of statistics, micro-batches and runs: one list.
  Tensor observed() const;
  /// That of other micro-batches, as long as those here have seen as many runs. Nothing where there are none here.
  std::optional<layers::ValueType> expected(const MicroBatchRange& micro_batches) const;
  /// Adds that of other micro-batches. How many numbers they saw follows from their samples: each sample has as many.
  /// Errors  UsageError when those here saw other numbers for each sample.
  void add(const Tensor& observed, const MicroBatchRange& micro_batches, const std::vector<int64_t>& first_sample);
  /// @}
  /// Drops what was observed and not committed.
  void forget();

 private:
  const layers::Graph& graph_;
  std::map<int, size_t> first_of_node_;  ///< position in entries_ of the node's first
  std::vector<Entry> entries_;           ///< in the order of nodes
};

}  // namespace sluice::parallel
