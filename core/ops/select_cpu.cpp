#include "core/ops/broadcast_cpu.h"
#include "core/ops/select.h"

namespace sluice::kernels {

namespace {

/// An operand's elements in a run, `step` apart.
template <class T>
struct Elements {
  const T* first;
  int64_t step;
};

template <class T>
void where_run(const Elements<uint8_t>& condition, const Elements<T>& a, const Elements<T>& b, T* y, int64_t count) {
  const auto run = [&](auto holds, auto a_at, auto b_at) {
    for (int64_t i = 0; i < count; ++i) y[i] = holds(i) ? a_at(i) : b_at(i);
  };
  if (condition.step == 1) {
    const auto holds = next_of(condition.first);
    if (a.step == 1 && b.step == 1) return run(holds, next_of(a.first), next_of(b.first));
    if (a.step == 1 && b.step == 0) return run(holds, next_of(a.first), repeat_of(b.first));
    if (a.step == 0 && b.step == 1) return run(holds, repeat_of(a.first), next_of(b.first));
  }
  run(strided_of(condition.first, condition.step), strided_of(a.first, a.step), strided_of(b.first, b.step));
}

template <class T>
void where_rows(Cpu& cpu, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(y.shape(), condition, a, b);
  const auto at = [&plan]<class S>(int operand, const S* from, int64_t row, int64_t column) {
    return Elements<S>{from + plan.offset(operand, row) + column * plan.step(operand), plan.step(operand)};
  };
  const auto* from_condition = condition.data<uint8_t>();
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  T* to = y.data<T>();
  over_runs(cpu, plan, y.elements(), [&](int64_t row, int64_t column, int64_t first, int64_t count) {
    where_run(at(0, from_condition, row, column), at(1, from_a, row, column), at(2, from_b, row, column), to + first, count);
  });
}

}  // namespace

void where(Cpu& cpu, const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_any(y.dtype(), "where", [&]<class T>() { where_rows<T>(cpu, condition, a, b, y); });
}

}  // namespace sluice::kernels
