#include "core/cuda/gpu_memory.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "core/arena.h"
#include "core/cuda/try.h"

namespace sluice {

std::shared_ptr<GpuMemory> GpuMemory::of(int index) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<GpuMemory>> all;
  std::lock_guard lock(mutex);
  auto found = all[index].lock();
  if (!found) all[index] = found = std::make_shared<GpuMemory>(index);
  return found;
}

void GpuMemory::enter(const Cuda& device, int64_t budget_bytes, int64_t bytes) {
  std::lock_guard lock(entering_);
  members_[&device].budget_bytes = budget_bytes;
  update_limit();
  std::lock_guard counting(counting_);
  given_ += bytes;
}

void GpuMemory::leave(const Cuda& device, int64_t bytes) noexcept {
  std::lock_guard lock(entering_);
  give_back(bytes);
  members_.erase(&device);
  update_limit();
}

void GpuMemory::set_budget_bytes(const Cuda& device, int64_t bytes) {
  std::lock_guard lock(entering_);
  members_.at(&device).budget_bytes = bytes;
  update_limit();
}

void GpuMemory::set_arena(const Cuda& device, Arena* arena) {
  std::lock_guard lock(entering_);
  members_.at(&device).arena = arena;
}

void GpuMemory::update_limit() {
  int64_t sum = 0;
  for (const auto& [device, member] : members_)
    if (__builtin_add_overflow(sum, member.budget_bytes, &sum)) sum = INT64_MAX;
  limit_ = sum;
  ++changes_;
}

bool GpuMemory::take(int64_t bytes) {
  std::lock_guard lock(counting_);
  if (bytes > limit_ - given_) return false;
  given_ += bytes;
  return true;
}

void GpuMemory::give_back(int64_t bytes) noexcept {
  std::lock_guard lock(counting_);
  given_ -= bytes;
  ++changes_;
}

void* GpuMemory::allocate(size_t bytes) {
  CUDA_TRY(cudaSetDevice(index_));
  if (!take(static_cast<int64_t>(bytes))) return nullptr;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaSuccess) return memory;
  {
    std::lock_guard lock(counting_);  // nothing has changed: this was never there
    given_ -= static_cast<int64_t>(bytes);
  }
  if (status != cudaErrorMemoryAllocation) cuda_try(status, "cudaMalloc");
  cudaGetLastError();
  return nullptr;
}

void GpuMemory::release(void* memory, size_t bytes) noexcept {
  cudaSetDevice(index_);
  cudaFree(memory);
  give_back(static_cast<int64_t>(bytes));
}

bool GpuMemory::reclaim(size_t bytes) {
  size_t freed = 0;
  {
    std::lock_guard lock(entering_);
    for (auto entry = members_.begin(); entry != members_.end() && freed < bytes; ++entry)
      if (Arena* arena = entry->second.arena) freed += arena->trim(bytes - freed);
  }
  if (freed > 0) return true;
  std::unique_lock lock(counting_);
  if (returning_ == 0) return false;
  returned_.wait(lock, [this, seen = returns_] { return returns_ != seen; });
  return true;
}

void GpuMemory::begin_return() {
  std::lock_guard lock(counting_);
  ++returning_;
}

void GpuMemory::end_return() noexcept {
  {
    std::lock_guard lock(counting_);
    --returning_;
    ++returns_;
    ++changes_;
  }
  returned_.notify_all();
}

}  // namespace sluice
