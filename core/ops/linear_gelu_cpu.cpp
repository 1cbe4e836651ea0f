#include "core/ops/elementwise.h"
#include "core/ops/linear_gelu.h"

namespace sluice::kernels {

void linear_gelu(Cpu& cpu, const MatmulOperands& product, const Tensor& y) { unary(cpu, Unary::GeluTanh, product.c, y); }

}  // namespace sluice::kernels
