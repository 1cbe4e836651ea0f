#include "core/cpu/cpu.h"
#include "core/ops/activation.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/lanes.h"
#include "core/ops/reduction.h"

namespace sluice::kernels {

void bias_activation(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& y) {
  const int64_t columns = x.dim(-1), rows = x.shape().elements_before(-1);
  on_float(x.dtype(), "bias_activation", [&]<class T>() {
    on_bias_activation(rule, [&]<class Rule>() {
      cpu.parallel_for(rows, grain_for(columns), [=, x = x.data<T>(), bias = bias.data<T>(), y = y.data<T>()](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          for_lanes<T>(0, columns,
                       [&](auto load, auto store) { store(y + row * columns, Rule::value(load(x + row * columns) + load(bias))); });
      });
    });
  });
}

void bias_activation_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                              const Tensor& partial) {
  const int64_t columns = x.dim(-1), rows = x.shape().elements_before(-1), chunk_rows = ReductionView{1, rows, columns}.chunk_items();
  on_float(x.dtype(), "bias_activation_backward", [&]<class T>() {
    using A = compute_t<T>;
    T* to = dx.defined() ? dx.data<T>() : nullptr;
    A* sums = partial.defined() ? partial.data<A>() : nullptr;
    const T* offset = bias.defined() ? bias.data<T>() : nullptr;
    on_bias_activation(rule, [&]<class Rule>() {
      cpu.parallel_for(rows, chunk_rows, [=, x = x.data<T>(), dy = dy.data<T>()](int64_t begin, int64_t end) {
        A* total = sums ? sums + begin / chunk_rows * columns : nullptr;
        if (total) std::fill_n(total, columns, A(0));
        for (int64_t row = begin; row < end; ++row)
          for_lanes<T>(0, columns, [&](auto load, auto store) {
            const auto value = load(x + row * columns);
            const auto slope = load(dy + row * columns) * Rule::slope(offset ? value + load(offset) : value);
            if (to) store(to + row * columns, slope);
            if (total) store(total, load(total) + slope);
          });
      });
    });
  });
}

void mul_silu(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& y) {
  on_float(a.dtype(), "mul_silu", [&]<class T>() {
    cpu.parallel_for(a.elements(), grain_for(1), [a = a.data<T>(), b = b.data<T>(), y = y.data<T>()](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) { store(y, rules::Silu::value(load(a)) * load(b)); });
    });
  });
}

void mul_silu_backward(Cpu& cpu, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da, const Tensor& db) {
  on_float(a.dtype(), "mul_silu_backward", [&]<class T>() {
    T* to_a = da.defined() ? da.data<T>() : nullptr;
    T* to_b = db.defined() ? db.data<T>() : nullptr;
    cpu.parallel_for(a.elements(), grain_for(1), [=, a = a.data<T>(), b = b.data<T>(), dy = dy.data<T>()](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) {
        const auto gate = load(a), gradient = load(dy);
        if (to_a) store(to_a, gradient * load(b) * rules::Silu::slope(gate));
        if (to_b) store(to_b, gradient * rules::Silu::value(gate));
      });
    });
  });
}

}  // namespace sluice::kernels
