#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::emulation {

/// Dynamic shared memory of the one block that runs. It ends at a guard page, after rounding up to 16 bytes.
class SharedMemory {
 public:
  static constexpr size_t kDefaultBytes = size_t{48} << 10;  ///< what a launch may have without asking, static and dynamic
  /// Of it dynamic: what a kernel has of static memory beside it is unknown here, and at most 9 KiB (tests/machine_code/sm_90a.txt).
  static constexpr size_t kUnaskedBytes = size_t{39} << 10;
  static constexpr size_t kMostBytes = size_t{227} << 10;  ///< what it may ask for

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Gives the next block its memory, filled with 0xff so that what an earlier block left is not read.
  void start_block(size_t bytes);
  void* data() const { return reinterpret_cast<void*>(end_ - padded_bytes()); }
  /// "8 bytes past the end of the block's 64 bytes of dynamic shared memory" for an address in the guard.
  std::optional<std::string> describe(uintptr_t address) const;

 private:
  size_t padded_bytes() const { return (bytes_ + 15) / 16 * 16; }
  uintptr_t end_ = 0;
  size_t bytes_ = 0;
};

}  // namespace sluice::emulation
