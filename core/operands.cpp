#include "core/operands.h"

namespace sluice {

namespace {

[[noreturn]] void refuse(const char* op, const Tensor& a, const Tensor& b) {
  const bool share_name = a.device().name() == b.device().name();
  throw UsageError(join(op, ": needs operands on one device, got ", a, " and ", b,
                        share_name ? ", two devices of one name (each make_device() makes another)" : "", "; move one with Tensor::to()"));
}

}  // namespace

Device& device_of(const char* op, std::span<const Operand> operands) {
  const Tensor* first = nullptr;
  for (const Tensor& x : operands) {
    if (!x.defined()) continue;
    if (!first) first = &x;
    if (&x.device() != &first->device()) refuse(op, *first, x);
  }
  require(first != nullptr, op, ": needs a defined operand");
  return first->device();
}

}  // namespace sluice
