#include "core/ops/accumulate.h"

#include "core/dispatch.h"

namespace sluice {

void accumulate(const std::vector<Accumulation>& pairs) {
  if (pairs.empty()) return;
  Cost cost;
  std::vector<Operand> operands;
  operands.reserve(2 * pairs.size());
  for (const auto& [sum, part] : pairs) {
    require(sum.dtype() == DType::f32 || sum.dtype() == DType::f64, "accumulate: needs sums of f32 or f64, got ", sum);
    require(part.shape() == sum.shape() && part.dtype() == sum.dtype() && part.is_contiguous() && sum.is_contiguous(),
            "accumulate: needs a part like its sum, both contiguous: ", sum, ", got ", part);
    const auto bytes = static_cast<double>(sum.bytes());
    operands.insert(operands.end(), {sum, part});
    cost += {static_cast<double>(sum.elements()), 2 * bytes, bytes};
  }
  run_kernel("add_into", operands, cost, [&](auto& context) { kernels::accumulate(context, pairs); });
}

}  // namespace sluice
