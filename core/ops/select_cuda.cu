#include "core/ops/broadcast_cuda.cuh"
#include "core/ops/select.h"

namespace sluice::kernels {

namespace {

template <int kWidth, class T>
__global__ void where_runs(const uint8_t* condition, const T* a, const T* b, T* y, Broadcast<3> plan, int64_t count) {
  const int64_t first = grid_index() * kWidth;
  if (first >= count) return;
  const int64_t row = row_of(plan, first), column = first - row * plan.columns();
  const auto of_condition = load_operand<kWidth>(plan, 0, condition, row, column);
  const auto of_a = load_operand<kWidth>(plan, 1, a, row, column), of_b = load_operand<kWidth>(plan, 2, b, row, column);
  const auto holds = std::bit_cast<Run<kWidth, uint8_t>>(of_condition);
  const auto left = std::bit_cast<Run<kWidth, T>>(of_a), right = std::bit_cast<Run<kWidth, T>>(of_b);
  Run<kWidth, T> result;
  for (int i = 0; i < kWidth; ++i) result.at[i] = holds.at[i] ? left.at[i] : right.at[i];
  store_run(y + first, result);
}

template <class T>
void where_rows(Cuda& cuda, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(y.shape(), condition, a, b);
  const auto* from_condition = condition.data<uint8_t>();
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  T* to = y.data<T>();
  const int64_t count = y.elements();
  constexpr int kWidth = Pack<T>::kCount;
  if (packs_fit<T>(plan.columns(), to) && starts_at_runs(plan, 0, from_condition, kWidth) && starts_at_runs(plan, 1, from_a, kWidth) &&
      starts_at_runs(plan, 2, from_b, kWidth))
    return launch(cuda, "where", run_shape(count, kWidth), where_runs<kWidth, T>, from_condition, from_a, from_b, to, plan, count);
  launch(cuda, "where", run_shape(count, 1), where_runs<1, T>, from_condition, from_a, from_b, to, plan, count);
}

}  // namespace

void where(Cuda& cuda, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_any(y.dtype(), "where", [&]<class T>() { where_rows<T>(cuda, condition, a, b, y); });
}

}  // namespace sluice::kernels
