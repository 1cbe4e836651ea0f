#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// What a program's buffers hold, for one micro-batch (of uneven ones the largest). Units: bytes. Lists that are empty count as zeros.
struct ProgramBytes {
  std::vector<int64_t> always;             ///< by device: parameters, gradients, optimizer states, workspace
  std::vector<int64_t> value;              ///< by value, and its gradient
  std::vector<int64_t> tape;               ///< by stage: what forward keeps for the backward
  std::vector<int64_t> tape_recomputed;    ///< by stage: the tape after R; stages without R keep theirs
  std::vector<int64_t> tape_for_weights;   ///< by stage: what is left of the tape between I and W
  std::vector<int64_t> forward_scratch;    ///< by stage: at F's peak beyond what it leaves
  std::vector<int64_t> recompute_scratch;  ///< by stage: the same of R
  std::vector<int64_t> backward_scratch;   ///< by stage: the same of B and I
  std::vector<int64_t> weight_scratch;     ///< by stage: the same of W
  std::vector<int64_t> budget;             ///< by device; empty = unlimited

  bool any() const { return !(always.empty() && value.empty() && tape.empty() && tape_recomputed.empty()); }
};

/// The bytes that a device holds around one action of its list.
struct BytesAt {
  int64_t peak = 0;   ///< while the action runs
  int64_t after = 0;  ///< when it has let go what it frees
};

/// Follows one device of a verified program: one entry an action. The sum of what the buffers hold, so an upper bound where buffers
/// share memory; exact bytes come from the executor on meta devices.
/// Errors  UsageError when a list is shorter than the program needs.
std::vector<BytesAt> bytes_of(const Program& program, const ProgramBytes& bytes, int device);

}  // namespace sluice::parallel
