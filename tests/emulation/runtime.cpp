#include "tests/emulation/runtime.h"

#include <cstdlib>
#include <thread>

#include "core/error.h"

namespace sluice::emulation {

void RuntimeMutex::yield(std::chrono::microseconds time) {
  const int depth = depth_;
  for (int i = 0; i < depth; ++i) unlock();
  std::this_thread::sleep_for(time);
  for (int i = 0; i < depth; ++i) lock();
}

Runtime::Runtime() {
  if (const char* text = std::getenv("SLUICE_EMULATION_SEED")) seed = std::strtoull(text, nullptr, 10);
  for (int device = 0; device < kDevices; ++device) queues.push_back(std::make_shared<Queue>(device, true));
}

void Runtime::run_others(int device) {
  for (const auto& queue : queues) try {
      if (queue->device() != device) queue->run_all();
    } catch (const Blocked&) {
    }
}

void Runtime::run_device(int device) {
  for (const auto& queue : queues)
    if (queue->device() == device) queue->run_all();
}

const std::shared_ptr<Queue>& Runtime::queue_of(cudaStream_t stream) { return stream ? stream->queue : queues[current_device()]; }

void Runtime::submit(cudaStream_t stream, CUgraphNode_st node) {
  if (is_captured(stream)) return stream->capture->nodes.push_back(std::move(node));
  const std::shared_ptr<Queue> queue = queue_of(stream);
  if (!stream) refuse_default_stream(queue->device());
  queue->put(std::move(node.work));
  if (stream) return;
  wait_for([&] {
    for (const auto& other : queues)
      if (other->device() == queue->device() && other->waits_for_default() && other != queue) other->run_all();
    queue->run_all();
  });
}

void Runtime::set_fault(const std::string& what) {
  fault = what;
  for (const auto& queue : queues) queue->drop_all();
  for (const cudaStream_t stream : captured) stream->capture = nullptr;
  captured.clear();
}

/// Never destroyed: static objects of a program may free memory after main.
Runtime& runtime() {
  static Runtime& state = *new Runtime;
  return state;
}

size_t allocated_bytes(int device) {
  std::lock_guard lock(runtime().mutex);
  return runtime().memory.live_bytes(device);
}

size_t peak_bytes(int device) {
  std::lock_guard lock(runtime().mutex);
  return runtime().memory.peak_bytes(device);
}

void reset_peak_bytes(int device) {
  std::lock_guard lock(runtime().mutex);
  runtime().memory.reset_peak(device);
}

void refuse_allocations_after(uint64_t count) {
  std::lock_guard lock(runtime().mutex);
  runtime().allocations_left = count;
}

uint64_t host_reads() {
  std::lock_guard lock(runtime().mutex);
  return runtime().host_reads;
}

uint64_t stream_waits() {
  std::lock_guard lock(runtime().mutex);
  return runtime().stream_waits;
}

void set_peer_access(bool has_access) {
  std::lock_guard lock(runtime().mutex);
  runtime().has_peer_access = has_access;
}

void set_seed(uint64_t seed) {
  std::lock_guard lock(runtime().mutex);
  runtime().seed = seed;
}

void reset() {
  std::lock_guard lock(runtime().mutex);
  runtime().set_fault("");
  cudaGetLastError();
}

}  // namespace sluice::emulation
