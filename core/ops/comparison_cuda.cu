#include "core/ops/broadcast_cuda.cuh"
#include "core/ops/comparison_rules.h"

namespace sluice::kernels {

void compare(Cuda& cuda, Comparison rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_comparison(rule, a.dtype(), [&]<class Rule, class T>() { binary_rows<Rule, T, uint8_t>(cuda, "compare", a, b, y); });
}

}  // namespace sluice::kernels
