#pragma once
#include "autograd/optim/optimizer.h"
#include "core/batch.h"
#include "layers/graph.h"
#include "parallel/plan/plan.h"

namespace sluice::parallel {

/// Where a training step of one device goes.
struct KernelProfile {
  KernelTallies kernels;    ///< of one step
  double step_seconds = 0;  ///< of one step; what no kernel has of it is allocation, dispatch and loading
  /// Bytes that the step's actions read and write if each touches once what it is handed and hands on: inputs, weights, kept activations,
  /// gradients and optimizer states. What kernels move beyond that goes from one kernel to the next of an action, or is read again.
  double least_bytes = 0;
};

/// Counts a step on a meta device, on the clock of its speed.
/// Errors  UsageError for a plan of several devices, or of one that is no meta device; OutOfMemory never: budgets do not count.
KernelProfile counted_kernels(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch);

/// Trains steps on a device of this machine until `seconds` have passed or 50 are measured, after one that is not, and takes the mean of each
/// kind. A device of this kind with the same options is made for it.
/// Errors  UsageError for a plan of several devices, or of a meta device; what Trainer throws.
KernelProfile measured_kernels(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, const Batch& batch,
                               double seconds);

}  // namespace sluice::parallel
