#pragma once
#include <cstddef>
#include <cstdint>

namespace sluice::emulation {

/// A stack, and the place on it where execution stopped: one thread of a block, or the caller of the block.
/// Threads  a fiber stays on the OS thread that started it; one OS thread at a time uses fibers (the emulation's mutex sees to it).
/// Source   the System V ABI for x86-64: registers that a call keeps; AddressSanitizer's interface for user-level threads.
class Fiber {
 public:
  Fiber() = default;  ///< stands for the stack that is running now
  /// Has a stack of its own, with a guard page below.  Errors  std::bad_alloc.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Forgets what ran here: the next switch calls `entry`, which must never return.
  void restart();
  /// Leaves `from` until somebody switches back to it.
  static void switch_to(Fiber& from, Fiber& to);

  uintptr_t top() const { return reinterpret_cast<uintptr_t>(stack_) + stack_bytes_; }
  bool guard_holds(uintptr_t address) const;
  /// Makes the whole stack writable again for AddressSanitizer, after its frames were abandoned.
  void forget_frames() const;

 private:
  static void begin();
  void arrive();

  void (*entry_)() = nullptr;
  void* mapping_ = nullptr;
  void* stack_pointer_ = nullptr;
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace sluice::emulation
