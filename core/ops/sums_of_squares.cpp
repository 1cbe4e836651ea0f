#include "core/ops/sums_of_squares.h"

#include "core/dispatch.h"

namespace sluice {

void sums_of_squares(const std::vector<Tensor>& xs, const Tensor& sums, const std::vector<int64_t>& places) {
  require(sums.rank() == 1 && sums.dtype() == DType::f64 && sums.is_contiguous(), "sums_of_squares: needs sums f64 [N], contiguous, got ",
          sums);
  require(places.size() == xs.size(), "sums_of_squares: needs a place for each of ", xs.size(), " tensors, got ", places.size());
  const int64_t chunk = squares_chunk(sums.device().backend());
  std::vector<Tensor> from;
  Cost cost{0, 0, static_cast<double>(size_of(DType::f64) * xs.size())};
  int64_t chunks = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor& x = xs[i];
    require(is_floating(x.dtype()), "sums_of_squares: needs a floating dtype (f32, bf16, f64), got ", x);
    require(0 <= places[i] && places[i] < sums.dim(0), "sums_of_squares: needs places in [0, ", sums.dim(0), "), got ", places[i]);
    from.push_back(x.contiguous());
    cost += {2.0 * static_cast<double>(x.elements()), static_cast<double>(x.bytes()), 0};
    chunks += (x.elements() + chunk - 1) / chunk;
  }
  const Tensor partial = empty({chunks}, DType::f64, sums.device_ptr());
  std::vector<Operand> operands(from.begin(), from.end());
  operands.emplace_back(sums);
  run_kernel("sums_of_squares", operands, cost, [&](auto& context) { kernels::sums_of_squares(context, from, partial, sums, places); });
}

Tensor sum_of_squares(const Tensor& x) {
  const Tensor sum = empty({1}, DType::f64, x.device_ptr());
  sums_of_squares({x}, sum, {0});
  return sum.reshape({});
}

}  // namespace sluice
