#include <algorithm>
#include <limits>

#include "core/cpu/cpu.h"
#include "core/ops/product_factors.h"
#include "core/ops/reduction.h"

namespace sluice::kernels {

namespace {

struct Sum {
  template <class A>
  static A identity() {
    return 0;
  }
  template <class A>
  static A combine(A a, A b) {
    return a + b;
  }
};
struct Product {
  template <class A>
  static A identity() {
    return 1;
  }
  template <class A>
  static A combine(A a, A b) {
    return a * b;
  }
};
struct Max {
  template <class A>
  static A identity() {
    return -std::numeric_limits<A>::infinity();
  }
  template <class A>
  static A combine(A a, A b) {
    return a > b || a != a ? a : b;  // keeps NaN
  }
};

/// Neighbouring elements: 64 accumulators, which the compiler keeps in registers and which keep the rounding error small.
template <class Rule, class A, class T>
A reduce_run(const T* x, int64_t count) {
  constexpr int kAccumulators = 64;
  A sums[kAccumulators];
  std::fill_n(sums, kAccumulators, Rule::template identity<A>());
  int64_t i = 0;
  for (; i + kAccumulators <= count; i += kAccumulators)
    for (int j = 0; j < kAccumulators; ++j) sums[j] = Rule::combine(sums[j], static_cast<A>(x[i + j]));
  for (int j = 0; i < count; ++i, ++j) sums[j] = Rule::combine(sums[j], static_cast<A>(x[i]));
  for (int width = kAccumulators / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) sums[j] = Rule::combine(sums[j], sums[j + width]);
  return sums[0];
}

/// y[j] = the reduction of column j over `items` rows; four rows a pass.
template <class Rule, class A, class T>
void reduce_columns(const T* x, int64_t items, int64_t columns, A* y) {
  std::fill_n(y, columns, Rule::template identity<A>());
  int64_t i = 0;
  for (; i + 4 <= items; i += 4) {
    const T *a = x + i * columns, *b = a + columns, *c = b + columns, *d = c + columns;
    for (int64_t j = 0; j < columns; ++j) {
      const A left = Rule::combine(static_cast<A>(a[j]), static_cast<A>(b[j]));
      const A right = Rule::combine(static_cast<A>(c[j]), static_cast<A>(d[j]));
      y[j] = Rule::combine(y[j], Rule::combine(left, right));
    }
  }
  for (; i < items; ++i)
    for (int64_t j = 0; j < columns; ++j) y[j] = Rule::combine(y[j], static_cast<A>(x[i * columns + j]));
}

template <class Rule, class T, class To>
void reduce_as(Cpu& cpu, const ReductionView& view, const Tensor& x, const Tensor& partial, double factor, const Tensor& y) {
  using A = compute_t<T>;
  const int64_t outer = view.outer, n = view.n, inner = view.inner;
  const int64_t chunks = view.chunks(), items = view.chunk_items();
  const T* from = x.data<T>();
  A* parts = partial.data<A>();
  cpu.parallel_for(outer * chunks, grain_for(std::min(n, items) * inner), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t first = at % chunks * items, count = std::min(items, n - first);
      const T* run = from + (at / chunks * n + first) * inner;
      if (inner == 1)
        parts[at] = reduce_run<Rule, A>(run, count);
      else
        reduce_columns<Rule, A>(run, count, inner, parts + at * inner);
    }
  });
  To* to = y.data<To>();
  for (int64_t i = 0; i < outer; ++i) {
    A* total = parts + i * chunks * inner;
    for (int64_t chunk = 1; chunk < chunks; ++chunk)
      for (int64_t j = 0; j < inner; ++j) total[j] = Rule::combine(total[j], total[chunk * inner + j]);
    for (int64_t j = 0; j < inner; ++j) to[i * inner + j] = static_cast<To>(total[j] * static_cast<A>(factor));
  }
}

}  // namespace

void reduce(Cpu& cpu, Reduction rule, const ReductionView& view, const Tensor& x, const Tensor& partial, double factor, const Tensor& y) {
  if (y.elements() == 0) return;
  on_float(x.dtype(), "reduce", [&]<class T>() {
    const auto reduce_to = [&]<class To>() {
      switch (rule) {
        case Reduction::Sum:
          return reduce_as<Sum, T, To>(cpu, view, x, partial, factor, y);
        case Reduction::Product:
          return reduce_as<Product, T, To>(cpu, view, x, partial, factor, y);
        case Reduction::Max:
          return reduce_as<Max, T, To>(cpu, view, x, partial, factor, y);
      }
    };
    y.dtype() == x.dtype() ? reduce_to.template operator()<T>() : reduce_to.template operator()<compute_t<T>>();
  });
}

void max_backward(Cpu& cpu, const ReductionView& view, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  on_float(x.dtype(), "max_backward", [&]<class T>() {
    using A = compute_t<T>;
    const int64_t outer = view.outer, n = view.n, inner = view.inner;
    const T *from = x.data<T>(), *top = y.data<T>(), *gradient = dy.data<T>();
    T* to = dx.data<T>();
    cpu.parallel_for(outer * inner, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t first = at / inner * n * inner + at % inner;
        const auto is_top = [&](int64_t i) { return static_cast<A>(from[first + i * inner]) == static_cast<A>(top[at]); };
        A ties = 0;
        for (int64_t i = 0; i < n; ++i) ties += is_top(i);
        const A others = ties > 0 ? A(0) : std::numeric_limits<A>::quiet_NaN();  // a NaN equals nothing
        for (int64_t i = 0; i < n; ++i) to[first + i * inner] = static_cast<T>(is_top(i) ? static_cast<A>(gradient[at]) / ties : others);
      }
    });
  });
}

void prod_backward(Cpu& cpu, const ReductionView& view, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  on_float(x.dtype(), "prod_backward", [&]<class T>() {
    using A = compute_t<T>;
    const int64_t outer = view.outer, n = view.n, inner = view.inner;
    const T *from = x.data<T>(), *gradient = dy.data<T>();
    T* to = dx.data<T>();
    cpu.parallel_for(outer * inner, grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t first = at / inner * n * inner + at % inner;
        const auto factor = [&](int64_t i) { return static_cast<A>(from[first + i * inner]); };
        Factors<A> factors;
        for (int64_t i = 0; i < n; ++i) factors.add(factor(i));
        const A g = static_cast<A>(gradient[at]);
        for (int64_t i = 0; i < n; ++i) to[first + i * inner] = static_cast<T>(g * factors.without(factor(i)));
      }
    });
  });
}

}  // namespace sluice::kernels
