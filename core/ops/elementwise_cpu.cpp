#include "core/cpu/cpu.h"
#include "core/ops/broadcast_cpu.h"
#include "core/ops/elementwise.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/gradient_sum_cpu.h"

namespace sluice::kernels {

namespace {

/// y = rule(x) element by element.
template <class T, class Rule>
void map_rule(Cpu& cpu, const Rule& rule, const Tensor& x, const Tensor& y) {
  cpu.parallel_for(x.elements(), grain_for(1), [=, from = x.data<T>(), to = y.data<T>()](int64_t begin, int64_t end) {
    for_lanes<T>(begin, end, [&](auto load, auto store) { store(to, rule.value(load(from))); });
  });
}

/// dx = dy * rule'(x) (+ sum).
template <class T, class Rule>
void slope_rule(Cpu& cpu, const Rule& rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  const T *from = x.data<T>(), *gradient = dy.data<T>(), *added = sum.defined() ? sum.data<T>() : nullptr;
  T* to = dx.data<T>();
  cpu.parallel_for(x.elements(), grain_for(1), [=](int64_t begin, int64_t end) {
    write_gradient(begin, end, added, to, [=](const auto& load, int64_t at) {
      if constexpr (requires { Rule::kConstantSlope; })  // x is not even asked for
        return load(gradient + at) * rule.slope(Lanes<compute_t<T>>(0));
      else
        return load(gradient + at) * rule.slope(load(from + at));
    });
  });
}

}  // namespace

void unary(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "unary", [&]<class T>() { on_unary(rule, [&]<class Rule>() { map_rule<T>(cpu, Rule{}, x, y); }); });
}

void unary_backward(Cpu& cpu, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  on_float(x.dtype(), "unary_backward",
           [&]<class T>() { on_unary(rule, [&]<class Rule>() { slope_rule<T>(cpu, Rule{}, x, dy, sum, dx); }); });
}

void binary(Cpu& cpu, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  if (is_floating(y.dtype()))
    return on_float(y.dtype(), "binary", [&]<class T>() { on_binary(rule, [&]<class Rule>() { binary_rows<Rule, T>(cpu, a, b, y); }); });
  on_index(y.dtype(), "binary", [&]<class T>() {
    on_integer_binary(rule, [&]<class Rule>() { binary_rows<Rule, T, T, std::make_unsigned_t<T>>(cpu, a, b, y); });
  });
}

void numbers(Cpu& cpu, WithNumbers rule, const Tensor& x, double first, double second, const Tensor& y) {
  on_float(x.dtype(), "numbers",
           [&]<class T>() { with_numbers<T>(rule, first, second, [&](const auto& formula) { map_rule<T>(cpu, formula, x, y); }); });
}

void numbers_backward(Cpu& cpu, WithNumbers rule, const Tensor& x, double number, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  on_float(x.dtype(), "numbers_backward",
           [&]<class T>() { with_slope<T>(rule, number, [&](const auto& formula) { slope_rule<T>(cpu, formula, x, dy, sum, dx); }); });
}

void clamp(Cpu& cpu, const Tensor& x, double low, double high, const Tensor& y) {
  on_float(x.dtype(), "clamp", [&]<class T>() { map_rule<T>(cpu, rules::Clamp<T>(low, high), x, y); });
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
