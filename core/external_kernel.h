#pragma once
#include <functional>
#include <initializer_list>

#include "core/cpu/cpu.h"
#include "core/operands.h"

namespace sluice {

/// The kernel of an op from outside of the library, for the kinds of devices that it has one for. It writes the elements of tensors that the op has
/// made with `empty`, and allocates nothing itself, so that devices that only count know what an op takes.
struct ExternalKernel {
  /// On the device's intra-op threads: what it writes must not depend on how many there are (Cpu::parallel_for).
  std::function<void(Cpu& cpu)> cpu{};
  /// On the device's stream, a cudaStream_t; what it launches is not waited for. The device is current.
  std::function<void(void* stream)> cuda{};
};

/// Runs a kernel as the library's ops run theirs: on the operands' device, whose counters get the cost; a meta device counts and runs nothing.
/// `op`  a name, for messages and profiles. `operands`  all tensors that the kernel reads.
/// Errors  UsageError for operands on several devices, and a device that there is no kernel for; what the kernel throws.
///   run_external("snake", {x}, {.flops = 4e3, .bytes_read = 8e3, .bytes_written = 8e3}, {.cpu = [&](Cpu& cpu) { ... }});
void run_external(const char* op, std::initializer_list<Operand> operands, const Cost& cost, const ExternalKernel& kernel);

}  // namespace sluice
