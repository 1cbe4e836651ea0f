#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/run/sequences.h"
#include "parallel/run/trace.h"

namespace sluice::parallel {

/// Parameters by full name, and running means and variances: what load_parameters() reads of a checkpoint.
using Weights = std::map<std::string, Tensor>;

struct InferenceOptions {
  Precision precision = Precision::f32;
  int micro_batches = 1;         ///< in flight at once, at most
  int64_t samples = 1;           ///< of a micro-batch, for which the stages are balanced
  std::vector<int> stages{};     ///< nodes of each stage, one a device; empty: cut so that the slowest forward takes least
  double timeout_seconds = 600;  ///< of every wait of one device for another, and of every action
};

/// Computes the outputs of a graph by forward-only programs, a stage a device: no gradient, no optimizer, and weights in the working dtype
/// alone. Each program is lowered, verified and counted on meta devices, and held against the budgets, before it runs.
/// Threads  one caller.
/// Errors   OutOfMemory before anything runs, when a budget does not hold a program; else as Trainer.
class InferencePipeline {
 public:
  /// `graph`  all of it is run: take Graph::upstream_of the output. With fewer nodes than devices the last devices have no stage.
  /// Errors  UsageError for a weight that is missing or has another shape, and stages that are not a cut of the graph.
  InferencePipeline(layers::Graph graph, std::vector<DevicePtr> devices, const Weights& weights, const InferenceOptions& options);
  ~InferencePipeline();

  /// The first output of all samples in their order, on the host.
  Tensor run(const Batch& batch);
  /// All outputs, by the names of their nodes.
  std::map<std::string, Tensor> run_all(const Batch& batch);
  /// The same of each row's last token, where the batch has the rows' next tokens: each group's of `sequences`, one after the other. Other
  /// inputs are asked for by group when it begins. Bytes are counted for the declared shapes of those, and for caches as full as they get.
  /// `groups`  that may be there at once.
  /// Errors  UsageError for tokens beyond the capacity, and an input of unknown shape. After a failure no group is there any more.
  Tensor run(const Batch& batch, const Sequences& sequences, int groups);
  /// Frees what the devices keep of a group.
  void end_sequences(int group);

  /// @name Several pipelines on the same devices, which know of each other's bytes
  /// @{
  /// By device: what it holds while nothing runs and no sequence is there, as counted.
  std::vector<int64_t> kept_bytes();
  /// Counts runs that give `groups` groups of `rows` sequences, all that may be there, one token each, and holds them against the budgets
  /// before any runs. `like`  says what the tokens' input and the capacity are.
  /// Returns  by device: what it holds between such runs when all caches are full.
  /// Errors   OutOfMemory; UsageError for an input of unknown shape.
  std::vector<int64_t> expect_sequences(int64_t rows, const Sequences& like, int groups);
  /// What others hold, a number of bytes for each of devices(): from now on programs are counted, and held against the budgets, with them.
  void hold_beside(std::vector<int64_t> bytes);
  /// @}

  const layers::Graph& graph() const;
  /// Those with a stage.
  const std::vector<DevicePtr>& devices() const;
  const std::vector<int>& stage_sizes() const;
  /// By device: the most bytes of any program so far with what others hold beside it, as counted; what the device has held is its own to
  /// say.
  const std::vector<int64_t>& predicted_peak_bytes() const;
  /// Of the last run.
  const Trace& trace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::parallel
