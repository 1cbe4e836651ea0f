#pragma once
// Operands that broadcast: a thread makes neighbours of a row of the result.
#include "core/ops/broadcast.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

constexpr int kRunThreads = 256;

/// kWidth neighbours of an operand in a row, `step` elements apart; with step 1 they lie at an aligned address.
template <int kWidth, class T>
__device__ Whole<Run<kWidth, T>> load_operand(const T* from, int64_t step) {
  if (step == 1) return load_whole<Run<kWidth, T>>(from);
  Run<kWidth, T> values;
  for (int i = 0; i < kWidth; ++i) values.at[i] = from[i * step];
  return std::bit_cast<Whole<Run<kWidth, T>>>(values);
}

/// The run of an operand that belongs to the elements of the result from (row, column) on.
template <int kWidth, int kOperands, class T>
__device__ Whole<Run<kWidth, T>> load_operand(const Broadcast<kOperands>& plan, int operand, const T* from, int64_t row, int64_t column) {
  const int64_t step = plan.step(operand);
  return load_operand<kWidth>(from + plan.offset(operand, row) + column * step, step);
}

template <int kOperands>
__device__ int64_t row_of(const Broadcast<kOperands>& plan, int64_t element) {
  return plan.rank == 1 ? 0 : element / plan.columns();
}

/// An operand that runs along rows starts each of them at an address that is aligned to a run.
template <int kOperands, class T>
bool starts_at_runs(const Broadcast<kOperands>& plan, int operand, const T* from, int width) {
  if (plan.step(operand) != 1) return true;
  bool starts = reinterpret_cast<uintptr_t>(from) % (width * sizeof(T)) == 0;
  for (int axis = 0; axis < plan.rank - 1; ++axis) starts = starts && plan.steps[operand][axis] % width == 0;
  return starts;
}

/// Threads for a result of `count` elements, kWidth each.
inline LaunchShape run_shape(int64_t count, int width) {
  return {dim3(static_cast<unsigned>((count / width + kRunThreads - 1) / kRunThreads)), kRunThreads};
}

/// y may be a.
template <class Rule, int kWidth, class A, class T, class To>
__global__ void binary_runs(const T* a, const T* b, To* y, Broadcast<2> plan, int64_t count) {
  const int64_t first = grid_index() * kWidth;
  if (first >= count) return;
  const int64_t row = row_of(plan, first), column = first - row * plan.columns();
  const auto of_a = load_operand<kWidth>(plan, 0, a, row, column), of_b = load_operand<kWidth>(plan, 1, b, row, column);
  const auto left = std::bit_cast<Run<kWidth, T>>(of_a), right = std::bit_cast<Run<kWidth, T>>(of_b);
  Run<kWidth, To> result;
  for (int i = 0; i < kWidth; ++i) result.at[i] = static_cast<To>(Rule::value(static_cast<A>(left.at[i]), static_cast<A>(right.at[i])));
  store_run(y + first, result);
}

/// y = rule(a, b) with broadcasting, of elements T and results To, computed in A.
template <class Rule, class T, class To = T, class A = compute_t<T>>
void binary_rows(Cuda& cuda, const char* name, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(y.shape(), a, b);
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  To* to = y.data<To>();
  const int64_t count = y.elements();
  constexpr int kWidth = Pack<T>::kCount;
  if (packs_fit<T>(plan.columns(), to) && starts_at_runs(plan, 0, from_a, kWidth) && starts_at_runs(plan, 1, from_b, kWidth))
    return launch(cuda, name, run_shape(count, kWidth), binary_runs<Rule, kWidth, A, T, To>, from_a, from_b, to, plan, count);
  launch(cuda, name, run_shape(count, 1), binary_runs<Rule, 1, A, T, To>, from_a, from_b, to, plan, count);
}

}  // namespace sluice::kernels
