#include "tests/emulation/shared_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "core/error.h"

namespace sluice::emulation {

namespace {
constexpr size_t kGuardBytes = size_t{1} << 20;  // address space only
constexpr size_t kMappedBytes = (SharedMemory::kMostBytes + 4095) / 4096 * 4096;
}  // namespace

SharedMemory::SharedMemory() {
  void* mapping = mmap(nullptr, kMappedBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  end_ = reinterpret_cast<uintptr_t>(mapping) + kMappedBytes;
  mprotect(reinterpret_cast<void*>(end_), kGuardBytes, PROT_NONE);
}

SharedMemory::~SharedMemory() { munmap(reinterpret_cast<void*>(end_ - kMappedBytes), kMappedBytes + kGuardBytes); }

void SharedMemory::start_block(size_t bytes) {
  bytes_ = bytes;
  std::memset(data(), 0xff, padded_bytes());
}

std::optional<std::string> SharedMemory::describe(uintptr_t address) const {
  if (address < end_ || address >= end_ + kGuardBytes) return std::nullopt;
  return join(address - (end_ - padded_bytes() + bytes_), " bytes past the end of the block's ", bytes_, " bytes of dynamic shared memory");
}

}  // namespace sluice::emulation
