#include "core/dispatch.h"

namespace sluice {

DType dtype_of_kernel(std::span<const Operand> operands) {
  DType dtype = DType::f32;
  int64_t most = -1;
  for (const Tensor& operand : operands)
    if (operand.defined() && is_floating(operand.dtype()) && operand.elements() > most) {
      most = operand.elements();
      dtype = operand.dtype();
    }
  return dtype;
}

KernelTimer::KernelTimer(Device& device) : device_(device) {
  if (!device.options().tallies_kernels) return;
  device.synchronize();  // what was enqueued before is not this kernel's
  began_ = Clock::now();
}

void KernelTimer::stop(std::string_view op, DType dtype) const {
  if (!device_.options().tallies_kernels) return;
  device_.synchronize();
  device_.count_seconds(std::chrono::duration<double>(Clock::now() - began_).count(), op, dtype);
}

}  // namespace sluice
