#include <algorithm>

#include "core/error.h"
#include "tests/emulation/runtime.h"

// Stream capture and graphs. Graphs have one stream: what other streams would join is refused as not emulated.
namespace sluice::emulation {

void spoil(Capture& capture, cudaError_t code, const std::string& text) {
  capture.is_valid = false;
  throw Refusal{code, text};
}

bool is_captured(cudaStream_t stream) {
  if (!stream || !stream->capture) return false;
  check(stream->capture->is_valid, cudaErrorStreamCaptureInvalidated, "stream capture: an earlier call was illegal in it; end it");
  return true;
}

void refuse_to_wait_for(const char* call, cudaStream_t stream) {
  if (stream && stream->capture)
    spoil(*stream->capture, cudaErrorStreamCaptureUnsupported, join(call, ": the stream is captured, and its work does not run"));
}

void refuse_to_wait_for_device(const char* call, int device) {
  for (const cudaStream_t stream : runtime().captured)
    if (stream->queue->device() == device) refuse_to_wait_for(call, stream);
}

void refuse_as_unsafe(const char* call) {
  for (const cudaStream_t stream : runtime().captured) {
    const Capture& capture = *stream->capture;
    const bool concerns = capture.mode == cudaStreamCaptureModeGlobal ||
                          (capture.mode == cudaStreamCaptureModeThreadLocal && capture.thread == std::this_thread::get_id());
    if (concerns)
      spoil(*stream->capture, cudaErrorStreamCaptureUnsupported, join(call, ": is allowed during captures of relaxed mode only"));
  }
}

void refuse_default_stream(int device) {
  for (const cudaStream_t stream : runtime().captured)
    if (stream->queue->device() == device && stream->queue->waits_for_default())
      spoil(*stream->capture, cudaErrorStreamCaptureImplicit, "default stream: a stream that waits for it is captured");
}

namespace {

/// The first way in which nodes cannot take the place of others; success when they can.
cudaGraphExecUpdateResult difference(const std::vector<CUgraphNode_st>& from, const std::vector<CUgraphNode_st>& to) {
  if (from.size() != to.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].kind != to[i].kind) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (from[i].memory != to[i].memory) return cudaGraphExecUpdateErrorParametersChanged;
  }
  return cudaGraphExecUpdateSuccess;
}

}  // namespace

}  // namespace sluice::emulation

using namespace sluice::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](Runtime& state) {
    check(stream != nullptr, cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture: the default stream cannot be captured");
    check(!stream->capture, cudaErrorIllegalState, "cudaStreamBeginCapture: the stream is captured already");
    stream->capture = std::make_shared<Capture>(Capture{mode, std::this_thread::get_id(), true, {}});
    state.captured.push_back(stream);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  return call([&](Runtime& state) {
    check(stream && stream->capture, cudaErrorIllegalState, "cudaStreamEndCapture: the stream is not captured");
    check(stream->capture->mode == cudaStreamCaptureModeRelaxed || stream->capture->thread == std::this_thread::get_id(),
          cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture: another thread began this capture, and not in relaxed mode");
    const auto capture = std::exchange(stream->capture, nullptr);
    std::erase(state.captured, stream);
    check(capture->is_valid, cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture: an earlier call was illegal in the capture");
    *graph = new CUgraph_st{std::move(capture->nodes)};
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([&](Runtime&) {
    *status = cudaStreamCaptureStatusNone;
    if (stream && stream->capture) *status = stream->capture->is_valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&](Runtime&) {
    if (nodes)
      for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = &graph->nodes[i];
    *count = graph->nodes.size();
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call([&](Runtime&) { *executable = new CUgraphExec_st{graph->nodes}; });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  return call([&](Runtime&) {
    *info = {difference(executable->nodes, graph->nodes), nullptr, nullptr};
    check(info->result == cudaGraphExecUpdateSuccess, cudaErrorGraphExecUpdateFailure,
          "cudaGraphExecUpdate: the graphs differ in more than parameters");
    executable->nodes = graph->nodes;
  });
}

/// What runs is the graph as it is now; later updates concern later launches.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Runtime& state) {
    check(!stream || !stream->capture, cudaErrorNotSupported, "cudaGraphLaunch: graphs inside of graphs are not emulated");
    for (const auto& node : executable->nodes) state.submit(stream, node);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  std::lock_guard lock(runtime().mutex);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  std::lock_guard lock(runtime().mutex);
  delete executable;
  return cudaSuccess;
}
