#include "core/cuda/graph.h"

#include <cuda_runtime.h>

#include "core/cuda/event.h"
#include "core/cuda/try.h"

namespace sluice {

namespace {

/// A captured graph, until the end of a scope.
struct Captured {
  explicit Captured(cudaGraph_t graph) : handle(graph) {}
  ~Captured() {
    if (handle) cudaGraphDestroy(handle);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  bool is_empty() const {
    size_t nodes = 0;
    CUDA_TRY(cudaGraphGetNodes(handle, nullptr, &nodes));
    return nodes == 0;
  }
  cudaGraph_t handle;
};

}  // namespace

GraphCapture::GraphCapture(int index, CUstream_st* stream, std::shared_ptr<GpuMemory> memory, bool allowed)
    : index_(index), stream_(stream), memory_(std::move(memory)), allowed_(allowed) {}

GraphCapture::~GraphCapture() {
  close();
  for (const auto& [place, executable] : executables_) cudaGraphExecDestroy(executable);
}

void GraphCapture::open(int64_t place) {
  if (!allowed_) return;
  const std::lock_guard lock(mutex_);
  owner_ = std::this_thread::get_id();
  place_ = place;
  piece_ = 0;
  is_open_ = true;
}

void GraphCapture::begin_piece() {
  const std::lock_guard lock(mutex_);
  if (is_under_way_ || owner_ != std::this_thread::get_id()) return;
  before_ = std::make_shared<CudaEvent>(index_, stream_, false);
  CUDA_TRY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  is_under_way_ = true;
}

cudaGraph_t GraphCapture::end_capture() {
  is_under_way_ = false;
  before_ = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_TRY(cudaStreamEndCapture(stream_, &graph));
  return graph;
}

void GraphCapture::launch() {
  const std::lock_guard lock(mutex_);
  if (!is_under_way_ || owner_ != std::this_thread::get_id()) return;
  CUDA_TRY(cudaSetDevice(index_));
  const Captured graph(end_capture());
  if (!graph.is_empty()) {
    CUDA_TRY(cudaGraphLaunch(executable_of(graph.handle), stream_));
    ++piece_;
    ++counts_.launched;
  }
  free_kept();
}

/// A launch that is still running keeps the parameters that it was made with.
cudaGraphExec_t GraphCapture::executable_of(cudaGraph_t graph) {
  auto& executable = executables_[{place_, piece_}];
  if (executable) {
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(executable, graph, &info) == cudaSuccess) return executable;
    cudaGetLastError();
    cudaGraphExecDestroy(executable);
    executable = nullptr;
  }
  CUDA_TRY(cudaGraphInstantiate(&executable, graph, 0));
  ++counts_.instantiated;
  return executable;
}

void GraphCapture::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  if (is_under_way_) {
    cudaSetDevice(index_);
    cudaGraph_t dropped = nullptr;
    cudaStreamEndCapture(stream_, &dropped);
    if (dropped) cudaGraphDestroy(dropped);
    cudaGetLastError();
    is_under_way_ = false;
    before_ = nullptr;
  }
  free_kept();
}

Event GraphCapture::record(bool with_time) {
  const std::lock_guard lock(mutex_);
  if (is_under_way_ && owner_ != std::this_thread::get_id()) return before_;
  launch();
  return std::make_shared<CudaEvent>(index_, stream_, with_time);
}

bool GraphCapture::keep_until_launch(void* memory, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_under_way_) return false;
  try {
    to_free_.emplace_back(memory, bytes);
    memory_->begin_return();
  } catch (...) {  // no memory to remember it by: better lost than freed under a kernel
  }
  return true;
}

void GraphCapture::free_kept() noexcept {
  for (const auto& [memory, bytes] : to_free_) {
    memory_->release(memory, bytes);
    memory_->end_return();
  }
  to_free_.clear();
}

GraphCounts GraphCapture::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace sluice
