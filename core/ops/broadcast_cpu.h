#pragma once
#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/ops/broadcast.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

/// Calls body(row, column, first, count) for the runs of the rows of a result of `elements`; `first` counts elements from its beginning.
template <int kOperands, class Body>
void over_runs(Cpu& cpu, const Broadcast<kOperands>& plan, int64_t elements, const Body& body) {
  const int64_t columns = plan.columns();
  cpu.parallel_for(elements, grain_for(1), [&](int64_t begin, int64_t end) {
    int64_t row = begin / columns, column = begin % columns;
    for (int64_t count; begin < end; begin += count, ++row, column = 0) {
      count = std::min(columns - column, end - begin);
      body(row, column, begin, count);
    }
  });
}

/// An operand's elements in a run, by step: functions that the compiler sees through, so that it vectorises loops over them.
template <class T>
auto next_of(const T* x) {
  return [x](int64_t i) { return x[i]; };
}
template <class T>
auto repeat_of(const T* x) {
  return [value = *x](int64_t) { return value; };
}
template <class T>
auto strided_of(const T* x, int64_t step) {
  return [x, step](int64_t i) { return x[i * step]; };
}

/// Part of one row.
template <class Rule, class A, class T, class To>
void binary_run(const T* a, int64_t a_step, const T* b, int64_t b_step, To* y, int64_t count) {
  constexpr int64_t kBlock = 256;
  const auto run = [&](auto a_at, auto b_at) {
    for (int64_t begin = 0, end; begin < count; begin = end) {
      end = std::min(begin + kBlock, count);
      if (a_step == 1) ask_ahead(a + begin, end - begin);
      if (b_step == 1) ask_ahead(b + begin, end - begin);
      ask_ahead(y + begin, end - begin);
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<To>(Rule::value(static_cast<A>(a_at(i)), static_cast<A>(b_at(i))));
    }
  };
  if (a_step == 1 && b_step == 1) return run(next_of(a), next_of(b));
  if (a_step == 1 && b_step == 0) return run(next_of(a), repeat_of(b));
  if (a_step == 0 && b_step == 1) return run(repeat_of(a), next_of(b));
  run(strided_of(a, a_step), strided_of(b, b_step));
}

/// y = rule(a, b) with broadcasting, of elements T and results To, computed in A.
template <class Rule, class T, class To = T, class A = compute_t<T>>
void binary_rows(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(y.shape(), a, b);
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  To* to = y.data<To>();
  const int64_t a_step = plan.step(0), b_step = plan.step(1);
  over_runs(cpu, plan, y.elements(), [&](int64_t row, int64_t column, int64_t first, int64_t count) {
    binary_run<Rule, A>(from_a + plan.offset(0, row) + column * a_step, a_step, from_b + plan.offset(1, row) + column * b_step, b_step,
                        to + first, count);
  });
}

}  // namespace sluice::kernels
