#pragma once
#include <cstdint>

#include "parallel/checkpoint.h"

namespace sluice::parallel {

/// What a checkpoint was found to hold.
struct Verified {
  int64_t tensors = 0;     ///< parameters, running statistics, optimizer states and moving averages
  int64_t bytes = 0;       ///< of all files, state.json included
  int64_t values = 0;      ///< elements of all tensors
  int64_t not_finite = 0;  ///< of them, all in optimizer states: weights and averages with such a value are refused
};

/// Proves beyond open_checkpoint(), which proves every byte, that a checkpoint is one of this model and optimizer: every tensor that they
/// need is there once, f32 and of its shape, and no other; weights and averages are finite; weights_hash is that of the weights. States
/// that only other options of the optimizer need (Optimizer::unneeded_state_names) may be there.
/// `checkpoint` was opened with Wanted::everything.
/// Errors   DataError naming file, tensor and cure.
/// Cost     reads every tensor once; memory for the largest one.
/// Threads  any.
Verified verify(const Checkpoint& checkpoint, const layers::Graph& graph, const Optimizer& optimizer);

}  // namespace sluice::parallel
