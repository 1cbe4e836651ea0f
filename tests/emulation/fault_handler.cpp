#include "tests/emulation/fault_handler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <csignal>
#include <cstddef>

#include "core/error.h"
#include "tests/emulation/block.h"

namespace sluice::emulation {

namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGFPE};
constexpr size_t kSignalStackBytes = size_t{64} << 10;

struct Access {
  int signal;
  uintptr_t address;
  bool is_write;
};

std::function<std::string(uintptr_t)> describe_address;
std::array<struct sigaction, kSignals.size()> previous_actions;
Access last_access;

std::string text_of(const Access& access, const Fiber& fiber) {
  if (access.signal == SIGFPE) return "divides an integer by zero";
  if (fiber.guard_holds(access.address)) return "its stack overflows: a kernel keeps large arrays in shared memory";
  return join(access.is_write ? "writes " : "reads ", describe_address(access.address), "; check the kernel's bounds");
}

__attribute__((noinline)) void record_fault(Block& block) { block.set_fault(text_of(last_access, block.fiber())); }

/// Runs on the fiber's stack from its top, as if called: what stood there is abandoned.
[[noreturn]] __attribute__((no_sanitize("address"))) void after_fault() {
  Block& block = *Block::running();
  block.fiber().forget_frames();
  record_fault(block);
  block.abandon();
}

void on_signal(int signal, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (!Block::running()) {  // not a kernel's: the instruction runs again under the previous action
    for (size_t i = 0; i < kSignals.size(); ++i)
      if (kSignals[i] == signal) sigaction(signal, &previous_actions[i], nullptr);
    return;
  }
  constexpr greg_t kPageFaultWrite = 2;
  last_access = {signal, reinterpret_cast<uintptr_t>(info->si_addr), (registers[REG_ERR] & kPageFaultWrite) != 0};
  registers[REG_RSP] = static_cast<greg_t>(Block::running()->fiber().top() - sizeof(void*));
  registers[REG_RIP] = reinterpret_cast<greg_t>(&after_fault);
}

/// A handler cannot run on a stack that has overflowed. AddressSanitizer gives threads such a stack itself.
struct SignalStack {
  SignalStack() {
    stack_t current{};
    sigaltstack(nullptr, &current);
    if (!(current.ss_flags & SS_DISABLE)) return;
    own.ss_sp = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own.ss_size = kSignalStackBytes;
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (!own.ss_sp) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(own.ss_sp, kSignalStackBytes);
  }
  stack_t own{};
};

}  // namespace

void catch_faults_of_kernels(std::function<std::string(uintptr_t)> describe) {
  thread_local const SignalStack stack;
  static const bool installed = [&] {
    describe_address = std::move(describe);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous_actions[i]);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace sluice::emulation
