#pragma once
#include <functional>

#include "core/cuda/cuda.h"

namespace sluice {

/// Memory of a GPU for trials of library calls, counted on no device; null where the budgets or the GPU have none left.
class TrialMemory {
 public:
  TrialMemory(Cuda& cuda, int64_t bytes)
      : cuda_(cuda), bytes_(static_cast<size_t>(bytes)), returning_(cuda.memory()), memory_(cuda.allocate(bytes_)) {}
  ~TrialMemory() {
    if (memory_) cuda_.release(memory_, bytes_);
  }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* get() const { return memory_; }

 private:
  /// Devices that need the memory may wait for it, until it is released or could not be had.
  struct Returning {
    explicit Returning(GpuMemory& of) : memory(of) { memory.begin_return(); }
    ~Returning() { memory.end_return(); }
    Returning(const Returning&) = delete;
    Returning& operator=(const Returning&) = delete;
    GpuMemory& memory;
  };

  Cuda& cuda_;
  size_t bytes_;
  Returning returning_;
  void* memory_;
};

/// Whether kernels that are enqueued now are captured for a CUDA graph, so that nothing can be timed.
bool is_captured(const Cuda& cuda);

/// Time of the best of some rounds of equal calls, the first of which warms up; infinite for a call that answers false.
/// Cost  20 calls.
double trial_seconds(Cuda& cuda, const std::function<bool()>& enqueue);

}  // namespace sluice
