#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "vector_types.h"

// What emulated kernels and the tests call beside CUDA's own names.
inline constexpr int warpSize = 32;
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace sluice::emulation {

/// Seed of the random order of blocks and threads; SLUICE_EMULATION_SEED in the environment, else 1, until it is set.
void set_seed(uint64_t seed);

/// Forgets a kernel's fault and all queued work, which on hardware takes a new process. Memory, streams and events stay.
void reset();

/// What cudaMalloc gave a device and cudaFree did not take back, and the most of it since reset_peak_bytes().
size_t allocated_bytes(int device);
size_t peak_bytes(int device);
void reset_peak_bytes(int device);

/// The next `count` allocations on devices and of pinned memory succeed, and none after them until this is called again; at first all do.
void refuse_allocations_after(uint64_t count);

/// So far: copies from devices to the host, and calls in which the host waits for a stream.
uint64_t host_reads();
uint64_t stream_waits();

/// Whether a device may access another one's memory, as it may at first.
void set_peer_access(bool has_access);

/// Shared memory of the running block, aligned to 16 bytes, filled with 0xff (NaN) before the block starts. Beyond its end lies a guard.
void* dynamic_shared_memory();

/// @name For kernels' built-in functions; only inside a kernel
/// @{
[[noreturn]] void fail(const std::string& what);  ///< makes the launch a fault of this thread
unsigned lane();
uint32_t lanes_of_warp();  ///< mask of the lanes that this thread's warp has: fewer than 32 in the last warp of an odd block

/// What the lanes of a mask do together. The last lane to arrive calls combine(operands, lanes) with each lane's operand.
struct WarpOperation {
  const char* name;
  void (*combine)(void* const* operands, uint32_t lanes);
};
/// Waits until all lanes of `mask` are here with the same operation and mask; faults when one cannot come any more.
void warp_operation(const WarpOperation& operation, uint32_t mask, void* operand);

/// Copies to shared memory that run beside the thread: they arrive as late as it may rely on, at its wait after the commit. Until then 0xff
/// stands where they go. Copies that nobody waits for never arrive.
void copy_async(void* shared, const void* global, size_t bytes, bool is_there);
void commit_copies();
void wait_for_copies();

/// Waits until all threads of the block are here; returns how many of them gave `predicate`.
int block_barrier(const char* name, bool predicate);
/// @}

}  // namespace sluice::emulation
