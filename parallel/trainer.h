#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/batch.h"
#include "parallel/plan.h"
#include "parallel/trace.h"

namespace sluice::parallel {

struct TrainerOptions {
  uint64_t seed = 0;             ///< of parameters and random masks
  double clip = 0;               ///< largest global gradient norm; 0 = no clipping
  double timeout_seconds = 600;  ///< of every wait of one device for another
};

struct StepResult {
  double loss = 0;           ///< weighted mean over the mini-batch, before the update
  double gradient_norm = 0;  ///< global, before clipping
  double learning_rate = 0;
  double seconds = 0;  ///< wall time of the step; the devices' clocks on meta
  double bubble = 0;   ///< measured: 1 - mean busy time of the devices / step time
  double flops = 0;    ///< operations of the step, recomputation included
};

struct EvaluationResult {
  double loss_sum = 0;  ///< summed over the targets of the batch
  double weight = 0;    ///< of the targets
};

/// One parameter with all that a checkpoint keeps of it. The tensors are the trainer's own: writing to them changes the model.
struct ParameterState {
  std::string name;  ///< "node.parameter", whatever the partition
  Tensor value;
  std::vector<Tensor> optimizer_states;  ///< in the order of Optimizer::state_names()
};

/// Trains a graph by running its plan's program: one worker thread a device.
///
/// For a given M, the loss, gradients and weights are the same bits for every partition, number of devices, schedule and
/// rematerialization (docs/design.md, promise 1).
/// Threads  one caller.
/// Errors   what a stage throws comes out of step() with node, stage and micro-batch in its message; the other devices are stopped, and
///          the trainer's parameters are as before the step unless the optimizer had begun. CommError when a wait times out.
class Trainer {
 public:
  Trainer(const layers::Graph& graph, Plan plan, const Optimizer& optimizer, TrainerOptions options = {});
  ~Trainer();

  /// One optimizer step over a mini-batch. `micro_batches` = 0 takes the plan's M; any other number from 1 to the samples is legal at any
  /// step.
  StepResult step(const Batch& batch, int micro_batches = 0);
  /// The loss of a batch in evaluation mode; legal between any two steps.
  EvaluationResult evaluate(const Batch& batch);

  const layers::Graph& graph() const;
  const Plan& plan() const;
  const Optimizer& optimizer() const;
  /// Steps done so far: decides learning rate and random masks. A checkpoint restores it.
  int64_t steps_done() const;
  void set_steps_done(int64_t steps);

  /// All parameters in name order, each tied one once.
  std::vector<ParameterState> parameters() const;
  /// Bytes of every parameter's copy on every device, as the devices count them. Only owners have optimizer states.
  struct Placement {
    std::string name;
    int device;
    int64_t value_bytes, gradient_bytes, state_bytes;
  };
  std::vector<Placement> placements() const;
  /// Copies a tied parameter's value to its other uses; call after writing to parameters().
  void publish_parameters();
  /// XXH3-128 over all parameters' bytes in name order, as 32 hex digits.
  std::string weights_hash() const;

  /// Actions of the last step, for traces and reports.
  const Trace& trace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::parallel
