#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace sluice::emulation {

/// Device memory and pinned host memory. Each allocation is a mapping of its own whose end, rounded up to 16 bytes, touches guard pages;
/// others lie before it. The last freed ones stay unreachable, so that a late access is found too. Device memory begins as 0xff: NaN.
/// Threads  one at a time; `describe` also from a fault within a kernel.
class Memory {
 public:
  static constexpr int kHost = -1;  ///< the "device" of pinned host memory
  static constexpr int kDevices = 4;
  struct Allocation {
    uintptr_t begin = 0;
    size_t bytes = 0;
    int device = kHost;
    uintptr_t mapping = 0;
    size_t mapping_bytes = 0;

    uintptr_t end() const { return begin + bytes; }
    uintptr_t padded_end() const { return (end() + 15) & ~uintptr_t{15}; }
    std::string text() const;  ///< "an allocation of 400 bytes on device 0"
  };

  /// Null when the system has no memory.
  void* allocate(size_t bytes, int device);
  /// False when no such allocation begins there.
  bool release(void* memory);
  /// The live allocation that holds the address, or null.
  const Allocation* find(const void* address) const;
  size_t live_bytes(int device) const { return bytes_[device - kHost].live; }
  /// The most that were live since the last reset.
  size_t peak_bytes(int device) const { return bytes_[device - kHost].peak; }
  void reset_peak(int device) { bytes_[device - kHost].peak = live_bytes(device); }

  /// Where an address lies that cannot be accessed: "8 bytes past the end of an allocation of 400 bytes on device 0".
  std::string describe(uintptr_t address) const;
  /// The first allocation whose bytes between its end and the guard were written, which no fault shows; or null.
  const Allocation* overwritten_end() const;

 private:
  static constexpr size_t kFreedKept = 256;

  struct Bytes {
    size_t live = 0, peak = 0;
  };
  std::array<Bytes, 1 + kDevices> bytes_;  ///< of the host and the devices
  std::map<uintptr_t, Allocation> live_;   ///< by begin
  std::deque<Allocation> freed_;
};

}  // namespace sluice::emulation
