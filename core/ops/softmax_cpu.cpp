#include <cmath>
#include <limits>

#include "core/cpu/cpu.h"
#include "core/ops/rows_cpu.h"
#include "core/ops/softmax.h"

namespace sluice::kernels {

namespace {

/// Calls row(begin, n) with the offset of each row of the last axis.
template <class Row>
void each_row(Cpu& cpu, const Tensor& x, const Row& row) {
  const int64_t n = x.dim(-1);
  cpu.parallel_for(x.elements() / n, grain_for(n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i * n, n);
  });
}

template <class T>
void softmax_row(const T* x, T* y, int64_t n) {
  const auto elements = read(x, n);
  const auto shifted = elements - elements.maxCoeff();
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    write(y, n, exponentials(shifted));
    write(y, n, read(y, n) * (1 / read(y, n).sum()));
  } else {
    write(y, n, exponentials(shifted) * (1 / exponentials(shifted).sum()));  // exponentials kept in T would be rounded twice
  }
}

/// NaN where one of them is.
template <class T>
compute_t<T> maximum_of(const T* x, int64_t n) {
  return read(x, n).template maxCoeff<Eigen::PropagateNaN>();
}

}  // namespace

void softmax(Cpu& cpu, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "softmax", [&]<class T>() {
    each_row(cpu, x, [from = x.data<T>(), to = y.data<T>()](int64_t at, int64_t n) { softmax_row(from + at, to + at, n); });
  });
}

void softmax_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  on_float(y.dtype(), "softmax_backward", [&]<class T>() {
    each_row(cpu, y, [y = y.data<T>(), dy = dy.data<T>(), dx = dx.data<T>()](int64_t at, int64_t n) {
      const auto value = read(y + at, n), gradient = read(dy + at, n);
      write(dx + at, n, value * (gradient - (value * gradient).sum()));
    });
  });
}

void log_softmax(Cpu& cpu, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "log_softmax", [&]<class T>() {
    each_row(cpu, x, [x = x.data<T>(), y = y.data<T>()](int64_t at, int64_t n) {
      const auto elements = read(x + at, n);
      const auto shifted = elements - elements.maxCoeff();
      write(y + at, n, shifted - std::log(exponentials(shifted).sum()));
    });
  });
}

void log_softmax_backward(Cpu& cpu, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  on_float(y.dtype(), "log_softmax_backward", [&]<class T>() {
    each_row(cpu, y, [y = y.data<T>(), dy = dy.data<T>(), dx = dx.data<T>()](int64_t at, int64_t n) {
      const auto gradient = read(dy + at, n);
      write(dx + at, n, gradient - exponentials(read(y + at, n)) * gradient.sum());
    });
  });
}

void logsumexp(Cpu& cpu, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "logsumexp", [&]<class T>() {
    each_row(cpu, x, [x = x.data<T>(), y = y.data<T>()](int64_t at, int64_t n) {
      const auto maximum = maximum_of(x + at, n);
      const auto sum = std::isinf(maximum) ? 1 : exponentials(read(x + at, n) - maximum).sum();
      y[at / n] = static_cast<T>(maximum + std::log(sum));
    });
  });
}

void logsumexp_backward(Cpu& cpu, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  on_float(x.dtype(), "logsumexp_backward", [&]<class T>() {
    using C = compute_t<T>;
    each_row(cpu, x, [x = x.data<T>(), dy = dy.data<T>(), dx = dx.data<T>()](int64_t at, int64_t n) {
      const C maximum = maximum_of(x + at, n);
      if (maximum == -std::numeric_limits<C>::infinity()) return std::fill_n(dx + at, n, T(0)), void();
      const Lanes<C> origin(maximum), scale(static_cast<C>(dy[at / n]) / exponentials(read(x + at, n) - maximum).sum());
      for_lanes<T>(at, at + n, [&](auto load, auto store) { store(dx, exp(load(x) - origin) * scale); });
    });
  });
}

}  // namespace sluice::kernels
