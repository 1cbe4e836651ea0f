#include "core/ops/broadcast.h"
#include "core/ops/elementwise.h"
#include "core/ops/lanes.h"

namespace sluice::kernels {

namespace {

/// Part of one row. The steps 1 and 0 are constants in the loops that the compiler vectorises.
template <class Rule, class T>
void binary_run(const T* a, int64_t a_step, const T* b, int64_t b_step, T* y, int64_t count) {
  using A = compute_t<T>;
  const auto run = [&](auto a_at, auto b_at) {
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(Rule::value(static_cast<A>(a_at(i)), static_cast<A>(b_at(i))));
  };
  const auto next = [](const T* x) { return [x](int64_t i) { return x[i]; }; };
  const auto repeat = [](const T* x) { return [value = *x](int64_t) { return value; }; };
  const auto strided = [](const T* x, int64_t step) { return [x, step](int64_t i) { return x[i * step]; }; };
  if (a_step == 1 && b_step == 1) return run(next(a), next(b));
  if (a_step == 1 && b_step == 0) return run(next(a), repeat(b));
  if (a_step == 0 && b_step == 1) return run(repeat(a), next(b));
  run(strided(a, a_step), strided(b, b_step));
}

template <class Rule, class T>
void binary_rows(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(a, b, y.shape());
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  T* to = y.data<T>();
  const int64_t columns = plan.columns(), a_step = plan.a_step[plan.rank - 1], b_step = plan.b_step[plan.rank - 1];
  cpu.parallel_for(y.elements(), grain_for(1), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t row = begin / columns, column = begin % columns, count = std::min(columns - column, end - begin);
      binary_run<Rule>(from_a + plan.offset(plan.a_step, row) + column * a_step, a_step,
                       from_b + plan.offset(plan.b_step, row) + column * b_step, b_step, to + begin, count);
      begin += count;
    }
  });
}

}  // namespace

void unary(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "unary", [&]<class T>() {
    on_unary(rule, [&]<class Rule>() {
      cpu.parallel_for(x.elements(), grain_for(1), [from = x.data<T>(), to = y.data<T>()](int64_t begin, int64_t end) {
        for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, Rule::value(load(from))); });
      });
    });
  });
}

void unary_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  on_float(x.dtype(), "unary_backward", [&]<class T>() {
    on_unary(rule, [&]<class Rule>() {
      cpu.parallel_for(x.elements(), grain_for(1),
                       [from = x.data<T>(), gradient = dy.data<T>(), to = dx.data<T>()](int64_t begin, int64_t end) {
                         for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, load(gradient) * Rule::slope(load(from))); });
                       });
    });
  });
}

void binary(Cpu& cpu, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_float(y.dtype(), "binary", [&]<class T>() { on_binary(rule, [&]<class Rule>() { binary_rows<Rule, T>(cpu, a, b, y); }); });
}

void scale(Cpu& cpu, const Tensor& x, double factor, const Tensor& y) {
  on_float(x.dtype(), "scale", [&]<class T>() {
    cpu.parallel_for(x.elements(), grain_for(1), [=, from = x.data<T>(), to = y.data<T>()](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, load(from) * factor); });
    });
  });
}

void clamp(Cpu& cpu, const Tensor& x, double low, double high, const Tensor& y) {
  on_float(x.dtype(), "clamp", [&]<class T>() {
    const rules::Clamp<T> rule(low, high);
    cpu.parallel_for(x.elements(), grain_for(1), [=, from = x.data<T>(), to = y.data<T>()](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, rule.value(load(from))); });
    });
  });
}

void clamp_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx) {
  on_float(y.dtype(), "clamp_backward", [&]<class T>() {
    const rules::Clamp<T> rule(low, high);
    cpu.parallel_for(y.elements(), grain_for(1),
                     [=, values = y.data<T>(), gradient = dy.data<T>(), to = dx.data<T>()](int64_t begin, int64_t end) {
                       for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, rule.gradient(load(values), load(gradient))); });
                     });
  });
}

}  // namespace sluice::kernels
