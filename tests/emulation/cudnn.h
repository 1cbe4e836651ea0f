#pragma once
#include <string>
#include <vector>

#include "cudnn_graph.h"

namespace sluice::emulation {

/// An algorithm that the emulated cuDNN offers for every convolution and graph of operations.
struct CudnnEngine {
  int64_t index = 0;
  std::vector<cudnnBackendNumericalNote_t> notes;
  int64_t workspace_bytes = 0;  ///< all of which it overwrites
  enum {
    right,
    deviates,
    deviates_in_f32,  ///< only results of f32 are wrong: logarithms of base 2 in place of natural ones
    changes_with_every_run,
    fails,
    is_refused,
    is_slow
  } behaviour = right;
};

/// What the emulated cuDNN is like, and what was done with it. Descriptors are checked as strictly as the library does: wrong types of
/// attributes, a missing one, shapes that do not fit and unaligned addresses are CUDNN_STATUS_BAD_PARAM.
/// With SLUICE_EMULATED_CUDNN=1 in the environment it is there from the start, with right and wrong engines; else absent.
struct Cudnn {
  bool is_there = false;
  bool has_driver = true;                   ///< else cudnnCreate fails
  bool keeps_bf16_weight_gradients = true;  ///< offers nothing for those in f32, as cuDNN 9.19
  std::vector<CudnnEngine> engines;
  std::vector<int64_t> ran;  ///< indices of engines, one for each run
};
Cudnn& emulated_cudnn();

}  // namespace sluice::emulation
