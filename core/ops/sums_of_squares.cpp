#include "core/ops/sums_of_squares.h"

#include "core/dispatch.h"

namespace sluice {

void sums_of_squares(const std::vector<Tensor>& xs, const Tensor& sums, const std::vector<int64_t>& places) {
  require(sums.rank() == 1 && sums.dtype() == DType::f64 && sums.is_contiguous(), "sums_of_squares: needs sums f64 [N], contiguous, got ",
          sums);
  require(places.size() == xs.size(), "sums_of_squares: needs a place for each of ", xs.size(), " tensors, got ", places.size());
  const DeviceKind kind = sums.device().backend();
  std::vector<Tensor> from;
  Cost cost{0, 0, static_cast<double>(size_of(DType::f64) * xs.size())};
  int64_t chunks = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const Tensor& x = xs[i];
    require(is_floating(x.dtype()), "sums_of_squares: needs a floating dtype (f32, bf16, f64), got ", x);
    require(0 <= places[i] && places[i] < sums.dim(0), "sums_of_squares: needs places in [0, ", sums.dim(0), "), got ", places[i]);
    from.push_back(x.contiguous());
    cost += {2.0 * static_cast<double>(x.elements()), static_cast<double>(x.bytes()), 0};
    chunks += squares_chunks(kind, x.elements());
  }
  const Tensor partial = empty({chunks}, DType::f64, sums.device_ptr());
  std::vector<Operand> operands(from.begin(), from.end());
  operands.emplace_back(sums);
  run_kernel("sums_of_squares", operands, cost, [&](auto& context) { kernels::sums_of_squares(context, from, partial, sums, places); });
}

void squares_of_chunks(const Tensor& x, const Tensor& partial) {
  const int64_t chunks = squares_chunks(partial.device().backend(), x.elements());
  require(is_floating(x.dtype()), "squares_of_chunks: needs a floating dtype (f32, bf16, f64), got ", x);
  require(partial.shape() == Shape{chunks} && partial.dtype() == DType::f64 && partial.is_contiguous(),
          "squares_of_chunks: needs room f64 [", chunks, "], contiguous, for ", x, ", got ", partial);
  const Tensor from = x.contiguous();
  const Cost cost{2.0 * static_cast<double>(x.elements()), static_cast<double>(x.bytes()), static_cast<double>(partial.bytes())};
  run_kernel("squares_of_chunks", {from, partial}, cost, [&](auto& context) { kernels::squares_of_chunks(context, from, partial); });
}

void sum_of_chunks(const Tensor& partial, const Tensor& sums, int64_t place) {
  for (const Tensor& list : {partial, sums})
    require(list.rank() == 1 && list.dtype() == DType::f64 && list.is_contiguous(), "sum_of_chunks: needs f64 [N], contiguous, got ", list);
  require(0 <= place && place < sums.dim(0), "sum_of_chunks: needs a place in [0, ", sums.dim(0), "), got ", place);
  const Cost cost{static_cast<double>(partial.elements()), static_cast<double>(partial.bytes()), static_cast<double>(size_of(DType::f64))};
  run_kernel("sum_of_chunks", {partial, sums}, cost, [&](auto& context) { kernels::sum_of_chunks(context, partial, sums, place); });
}

Tensor sum_of_squares(const Tensor& x) {
  const Tensor sum = empty({1}, DType::f64, x.device_ptr());
  sums_of_squares({x}, sum, {0});
  return sum.reshape({});
}

}  // namespace sluice
