#include "core/ops/broadcast_cpu.h"
#include "core/ops/comparison_rules.h"

namespace sluice::kernels {

void compare(Cpu& cpu, Comparison rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_comparison(rule, a.dtype(), [&]<class Rule, class T>() { binary_rows<Rule, T, uint8_t>(cpu, a, b, y); });
}

}  // namespace sluice::kernels
