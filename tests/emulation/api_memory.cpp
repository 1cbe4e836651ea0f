#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "tests/emulation/runtime.h"

// Memory and copies.
namespace sluice::emulation {

namespace {

void allocate(Runtime& state, void** memory, size_t bytes, int device) {
  *memory = nullptr;
  if (bytes == 0) return;
  check(state.allocations_left > 0, cudaErrorMemoryAllocation, "no allocation is left before refuse_allocations_after() is called again");
  --state.allocations_left;
  if (device != Memory::kHost) {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    check(bytes <= free, cudaErrorMemoryAllocation, "cudaMalloc: device ", device, " has ", free, " bytes left, asked for ", bytes);
  }
  *memory = state.memory.allocate(bytes, device);
  check(*memory != nullptr, cudaErrorMemoryAllocation, "this machine has no memory for ", bytes, " bytes more");
}

/// Frees also after a kernel's fault: queues are empty then.
cudaError_t release(const char* name, void* memory) {
  std::lock_guard lock(runtime().mutex);
  const cudaError_t status = call([&](Runtime& state) {
    refuse_as_unsafe(name);
    const auto* allocation = state.memory.find(memory);
    const int device = allocation ? allocation->device : Memory::kHost;
    state.run_others(device);
    state.wait_for([&] { state.run_device(device); });
  });
  if (status == cudaErrorStreamCaptureUnsupported) return status;
  if (!memory || runtime().memory.release(memory)) return status;
  return remember(cudaErrorInvalidValue, join(name, ": no allocation begins at ", memory, "; it was freed already, or never made"));
}

struct Side {
  const char* name;
  const void* begin;
  bool on_device;
  bool pinned = false;
};

bool is_on_device(const Runtime& state, const void* memory) {
  const auto* allocation = state.memory.find(memory);
  return allocation && allocation->device != Memory::kHost;
}

/// The device of an allocation, as nodes of graphs name it.
std::string place_of(const Runtime& state, const void* memory) {
  const auto* allocation = state.memory.find(memory);
  return join('[', allocation ? allocation->device : Memory::kHost, ']');
}

/// Pageable host memory is the caller's; of all other memory the emulation knows the bounds.
void check_side(const Runtime& state, Side& side, size_t bytes) {
  const auto* allocation = state.memory.find(side.begin);
  const auto begin = reinterpret_cast<uintptr_t>(side.begin);
  check(allocation || !side.on_device, cudaErrorInvalidValue, "cudaMemcpy: the ", side.name, " should be device memory and lies ",
        state.memory.describe(begin));
  if (!allocation) return;
  check((allocation->device != Memory::kHost) == side.on_device, cudaErrorInvalidValue, "cudaMemcpy: the ", side.name, " should be ",
        side.on_device ? "device" : "host", " memory and lies in ", allocation->text());
  check(begin + bytes <= allocation->end(), cudaErrorInvalidValue, "cudaMemcpy: the ", side.name, " ends ",
        begin + bytes - allocation->end(), " bytes past the end of ", allocation->text());
  side.pinned = true;
}

/// As the real calls do: pageable memory is read before the call returns, and written before it returns.
void copy(Runtime& state, void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return;
  const bool known = kind != cudaMemcpyDefault;
  Side source{"source", from, known ? kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice : is_on_device(state, from)};
  Side target{"destination", to, known ? kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice : is_on_device(state, to)};
  check_side(state, source, bytes);
  check_side(state, target, bytes);
  if (source.on_device && !target.on_device) ++state.host_reads;
  if (is_captured(stream) && !(source.pinned && target.pinned))
    spoil(*stream->capture, cudaErrorStreamCaptureUnsupported, "cudaMemcpy: pageable memory cannot take part in a capture");
  CUgraphNode_st node{CUgraphNode_st::Kind::copy, [=] { std::memcpy(to, from, bytes); }, join(place_of(state, to), place_of(state, from))};
  if (source.pinned) {
    state.submit(stream, std::move(node));
  } else {
    const auto* bytes_now = static_cast<const char*>(from);
    node.work = [to, staged = std::vector<char>(bytes_now, bytes_now + bytes)] { std::memcpy(to, staged.data(), staged.size()); };
    state.submit(stream, std::move(node));
  }
  if (!target.pinned) state.wait_for([&] { state.queue_of(stream)->run_all(); });
}

void set(Runtime& state, void* memory, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  Side target{"destination", memory, true};
  check_side(state, target, bytes);
  state.submit(stream, {CUgraphNode_st::Kind::set, [=] { std::memset(memory, value, bytes); }, place_of(state, memory)});
}

}  // namespace

}  // namespace sluice::emulation

using namespace sluice::emulation;

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return call([&](Runtime& state) {
    refuse_as_unsafe("cudaMalloc");
    allocate(state, memory, bytes, current_device());
  });
}

cudaError_t cudaMallocHost(void** memory, size_t bytes, unsigned) {
  return call([&](Runtime& state) {
    refuse_as_unsafe("cudaMallocHost");
    allocate(state, memory, bytes, Memory::kHost);
  });
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) { return cudaMallocHost(memory, bytes, flags); }

cudaError_t cudaFree(void* memory) { return release("cudaFree", memory); }
cudaError_t cudaFreeHost(void* memory) { return release("cudaFreeHost", memory); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](Runtime& state) { copy(state, to, from, bytes, kind, stream); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&](Runtime& state) {
    check(width <= to_pitch && width <= from_pitch, cudaErrorInvalidValue, "cudaMemcpy2DAsync: rows of ", width,
          " bytes do not fit pitches ", to_pitch, " and ", from_pitch);
    for (size_t row = 0; row < height; ++row)
      copy(state, static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind, stream);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, cudaStream_t stream) {
  return call([&](Runtime& state) {
    const auto lies_on = [&](const void* memory, int device) {
      const auto* allocation = state.memory.find(memory);
      return allocation && allocation->device == device;
    };
    check(bytes == 0 || (lies_on(to, to_device) && lies_on(from, from_device)), cudaErrorInvalidValue,
          "cudaMemcpyPeerAsync: the memory does not lie on devices ", to_device, " and ", from_device);
    copy(state, to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return call([&](Runtime& state) { set(state, memory, value, bytes, stream); });
}

cudaError_t cudaMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return call([&](Runtime& state) {
    check(width <= pitch, cudaErrorInvalidValue, "cudaMemset2DAsync: rows of ", width, " bytes do not fit a pitch of ", pitch);
    for (size_t row = 0; row < height; ++row) set(state, static_cast<char*>(memory) + row * pitch, value, width, stream);
  });
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) { return cudaMemsetAsync(memory, value, bytes, nullptr); }
