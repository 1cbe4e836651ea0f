#include "tests/emulation/fiber.h"

#include <sys/mman.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Keeps the registers that a call must keep on the old stack, and takes them from the new one.
extern "C" void sluice_emulation_switch(void** old_stack_pointer, void* new_stack_pointer);
asm(R"(
.text
.globl sluice_emulation_switch
.type sluice_emulation_switch, @function
sluice_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sluice_emulation_switch, .-sluice_emulation_switch
)");

namespace sluice::emulation {

namespace {

constexpr size_t kGuardBytes = size_t{64} << 10;  // larger than the frames of kernels, which could step over it
#ifdef SLUICE_ADDRESS_SANITIZER
constexpr size_t kStackBytes = size_t{256} << 10;  // redzones around every array
#else
constexpr size_t kStackBytes = size_t{68} << 10;
#endif
// Tops differ by cache lines: at equal offsets within pages all stacks would compete for a few sets of the cache.
constexpr size_t kLineBytes = 64, kTopOffsets = 64;
constexpr int kKeptRegisters = 6;

size_t fibers_made = 0;
Fiber* leaving = nullptr;
Fiber* entering = nullptr;

}  // namespace

Fiber::Fiber(void (*entry)()) : entry_(entry), stack_bytes_(kStackBytes - fibers_made++ % kTopOffsets * kLineBytes) {
  mapping_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapping_, kGuardBytes, PROT_NONE);
  stack_ = static_cast<char*>(mapping_) + kGuardBytes;
  restart();
}

Fiber::~Fiber() {
  if (mapping_) munmap(mapping_, kGuardBytes + kStackBytes);
}

void Fiber::restart() {
  forget_frames();
  // begin() finds the stack as after a call: the return address, null, ends backtraces.
  auto* slot = reinterpret_cast<void**>(top());
  *--slot = nullptr;
  *--slot = reinterpret_cast<void*>(&Fiber::begin);
  stack_pointer_ = slot - kKeptRegisters;
  fake_stack_ = nullptr;
}

void Fiber::begin() {
  Fiber& self = *entering;
  self.arrive();
  self.entry_();
  __builtin_unreachable();
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  leaving = &from;
  entering = &to;
#ifdef SLUICE_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.stack_bytes_);
#endif
  sluice_emulation_switch(&from.stack_pointer_, to.stack_pointer_);
  from.arrive();
}

/// Tells AddressSanitizer which stack runs now; it answers with the bounds of the one that was left, which for the caller's is news.
void Fiber::arrive() {
#ifdef SLUICE_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack_, &leaving->stack_, &leaving->stack_bytes_);
#endif
}

bool Fiber::guard_holds(uintptr_t address) const {
  const auto begin = reinterpret_cast<uintptr_t>(mapping_);
  return address >= begin && address < begin + kGuardBytes;
}

void Fiber::forget_frames() const {
#ifdef SLUICE_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
}

}  // namespace sluice::emulation
