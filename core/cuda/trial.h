#pragma once
#include <functional>

#include "core/cuda/cuda.h"

namespace sluice {

/// Memory of a GPU for trials of library calls, outside of the device's budget; null where the GPU has none left.
class TrialMemory {
 public:
  TrialMemory(Cuda& cuda, int64_t bytes) : cuda_(cuda), memory_(cuda.allocate(static_cast<size_t>(bytes))) {}
  ~TrialMemory() {
    if (memory_) cuda_.release(memory_);
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  Cuda& cuda_;
  void* memory_;
};

/// SLUICE_TUNE is set in the environment, and not to 0.
bool wants_trials();

/// Time of the best of some rounds of equal calls, the first of which warms up; infinite for a call that answers false.
/// Cost  20 calls.
double trial_seconds(Cuda& cuda, const std::function<bool()>& enqueue);

}  // namespace sluice
