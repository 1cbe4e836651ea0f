#include "core/ops/moving_average.h"

#include "core/dispatch.h"

namespace sluice {

void moving_average_step(const std::vector<MovingAverage>& pairs, double decay, const Tensor& sum_of_squares) {
  constexpr const char* kOp = "moving_average_step";
  require(decay >= 0 && decay <= 1, kOp, ": needs a decay in [0, 1], got ", decay);
  require(!sum_of_squares.defined() || (sum_of_squares.rank() == 0 && sum_of_squares.dtype() == DType::f64), kOp,
          ": needs a sum of squares f64 [], got ", sum_of_squares);
  if (pairs.empty()) return;
  Cost cost;
  std::vector<Operand> operands{sum_of_squares};
  for (const auto& [average, value] : pairs) {
    require(average.dtype() == DType::f32 || average.dtype() == DType::f64, kOp, ": needs averages of f32 or f64, got ", average);
    require(value.shape() == average.shape() && value.dtype() == average.dtype() && value.is_contiguous() && average.is_contiguous(), kOp,
            ": needs a value like its average, both contiguous: ", average, ", got ", value);
    const auto bytes = static_cast<double>(average.bytes());
    operands.insert(operands.end(), {average, value});
    cost += {3 * static_cast<double>(average.elements()), 2 * bytes, bytes};
  }
  run_kernel(kOp, operands, cost, [&](auto& context) { kernels::moving_average_step(context, pairs, decay, sum_of_squares); });
}

}  // namespace sluice
