#pragma once
#include <chrono>
#include <optional>

#include "build_config.h"
#include "core/cuda/cuda.h"
#include "core/operands.h"
#include "core/where.h"

namespace sluice {

/// The dtype that a kind of kernel goes by: that of the largest operand of numbers.
DType dtype_of_kernel(std::span<const Operand> operands);

/// Measures a kernel of a device that tallies them; nothing on others.
class KernelTimer {
 public:
  explicit KernelTimer(Device& device);
  /// After the kernel. Errors  what it could not throw.
  void stop(std::string_view op, DType dtype) const;

 private:
  using Clock = std::chrono::steady_clock;
  Device& device_;
  Clock::time_point began_;
};

/// The one place that asks on which kind of device an op runs, and that refuses operands on two devices.
///
/// `operands` are all tensors that the kernel reads or writes, but for results and scratch that the op has just made on their device.
/// Adds the op's cost to the device's counters and calls `kernel(context)` with the backend's context (`Cpu&` or `Cuda&`). Kernels are
/// overloads on that context, so a forgotten kernel is a compile or link error; a build without CUDA asks for no CUDA kernel. A meta
/// device counts and runs nothing. Kernels allocate nothing: results and scratch are Tensors made by the op, so that a meta device counts
/// them too. Its kind goes by `dtype_of_kind`, where that is given, else by dtype_of_kernel().
/// Errors  as device_of().
template <class Kernel>
void run_kernel(const char* op, std::span<const Operand> operands, const Cost& cost, const Kernel& kernel,
                std::optional<DType> dtype_of_kind = {}) {
  Device& device = device_of(op, operands);
  const bool is_asked = device.options().tallies_kernels && !dtype_of_kind;
  const DType dtype = is_asked ? dtype_of_kernel(operands) : dtype_of_kind.value_or(DType::f32);
  device.count(cost, op, dtype);
  if (device.kind() == DeviceKind::meta) return;
  const KernelTimer timer(device);
  if constexpr (build::has_cuda)
    if (device.kind() == DeviceKind::cuda) {
      device.cuda().begin_kernel();
      kernel(device.cuda());
      return timer.stop(op, dtype);
    }
  kernel(device.cpu());
  timer.stop(op, dtype);
}
template <class Kernel>
void run_kernel(const char* op, std::initializer_list<Operand> operands, const Cost& cost, const Kernel& kernel,
                std::optional<DType> dtype_of_kind = {}) {
  run_kernel(op, std::span(operands.begin(), operands.size()), cost, kernel, dtype_of_kind);
}

}  // namespace sluice
