#pragma once
#include <functional>

#include "core/cuda/cuda.h"

namespace sluice {

/// Memory of a GPU for trials of library calls, counted on no device; null where the budgets or the GPU have none left.
class TrialMemory {
 public:
  TrialMemory(Cuda& cuda, int64_t bytes) : cuda_(cuda), bytes_(static_cast<size_t>(bytes)) {
    cuda_.memory().begin_return();  // devices that need it may wait
    memory_ = cuda.allocate(bytes_);
  }
  ~TrialMemory() {
    if (memory_) cuda_.release(memory_, bytes_);
    cuda_.memory().end_return();
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  Cuda& cuda_;
  size_t bytes_;
  void* memory_ = nullptr;
};

/// Whether kernels that are enqueued now are captured for a CUDA graph, so that nothing can be timed.
bool is_captured(const Cuda& cuda);

/// Time of the best of some rounds of equal calls, the first of which warms up; infinite for a call that answers false.
/// Cost  20 calls.
double trial_seconds(Cuda& cuda, const std::function<bool()>& enqueue);

}  // namespace sluice
