#pragma once
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"

/// One piece of work of a stream, or of a graph.
struct CUgraphNode_st {
  enum class Kind { kernel, copy, set, host_function, wait };
  Kind kind;
  std::function<void()> work;
  std::string memory = {};  ///< where a copy's or set's memory lies; an executable graph cannot be updated to other devices
};
struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;  ///< of one stream: each runs after the one before
};
struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
};

namespace sluice::emulation {

/// A capture under way on a stream. What the stream is given becomes a node and does not run.
/// Source  CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture", "Prohibited and Unhandled Operations".
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool is_valid = true;  ///< until something illegal is tried; from then on only cudaStreamEndCapture is of use
  std::vector<CUgraphNode_st> nodes;
};

/// Refuses what a capture forbids, and spoils it.
[[noreturn]] void spoil(Capture& capture, cudaError_t code, const std::string& text);
/// Whether the stream is captured. Errors  when something spoilt the capture.
bool is_captured(cudaStream_t stream);
/// Refuses to wait for a stream, or to ask for its state, while it is captured.
void refuse_to_wait_for(const char* call, cudaStream_t stream);
/// The same for all streams of a device.
void refuse_to_wait_for_device(const char* call, int device);
/// Refuses calls that may wait for the device, unless every capture that concerns the calling thread is relaxed.
void refuse_as_unsafe(const char* call);
/// Refuses work on a device's default stream while a stream that waits for it is captured.
void refuse_default_stream(int device);

}  // namespace sluice::emulation
