#pragma once
#include "core/cuda/graph.h"
#include "core/device.h"

namespace sluice {

/// While it lives, the kernels that the calling thread enqueues on a CUDA device are captured, and launched as CUDA graphs: the GPU then
/// starts one after the other without waiting for the host. What cannot be captured (uploads, events, waits) cuts a graph in two.
/// Changes no result and no counted byte. Does nothing on other devices, where it is not wanted, and with SLUICE_SYNC=1.
/// Threads  one scope a device, on the thread that runs its kernels.
/// Cost     every kernel is captured each time, so the host saves little: measure (Plan key pipeline.cuda_graphs).
class GraphScope {
 public:
  /// The executable graphs are kept by `place`: the next scope of the same one should do the same work, with any arguments.
  GraphScope(Device& device, bool wanted, int64_t place);
  /// Drops what launch() did not launch: after an error.
  ~GraphScope();
  GraphScope(const GraphScope&) = delete;
  GraphScope& operator=(const GraphScope&) = delete;

  /// All that was captured. Errors  DeviceError.
  void launch();

 private:
  GraphCapture* capture_ = nullptr;
};

/// Of a device, since it was made; zeros where there are no graphs.
GraphCounts graph_counts(Device& device);

}  // namespace sluice
