#include "core/ops/broadcast_cuda.cuh"
#include "core/ops/elementwise.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/gradient_sum_cuda.cuh"

namespace sluice::kernels {

namespace {

template <class Rule, class T>
struct ValueOf {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = Rule::value(Scalar<T>(x[0])).value; }
};

/// {x, dy} -> {dx}
template <class Rule, class T>
struct SlopeOf {
  using C = compute_t<T>;
  Rule rule;
  __device__ void operator()(const C (&x)[2], C (&dx)[1]) const { dx[0] = x[1] * rule.slope(Scalar<T>(x[0])).value; }
};

/// {x, dy, sum} -> {dx + sum}
template <class Rule, class T>
struct SlopeAddedOf {
  using C = compute_t<T>;
  Rule rule;
  __device__ void operator()(const C (&x)[3], C (&dx)[1]) const {
    dx[0] = static_cast<C>(rounded_sum(static_cast<T>(x[1] * rule.slope(Scalar<T>(x[0])).value), static_cast<T>(x[2])));
  }
};

template <class Rule, class T>
struct OfBoth {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[2], C (&y)[1]) const { y[0] = Rule::value(x[0], x[1]); }
};

/// A rule that holds numbers.
template <class Formula, class T>
struct Mapped {
  using C = compute_t<T>;
  Formula formula;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = formula.value(Scalar<T>(x[0])).value; }
};

/// {y, dy} -> {dx}
template <class T>
struct ClampedGradient {
  using C = compute_t<T>;
  rules::Clamp<T> rule;
  __device__ void operator()(const C (&x)[2], C (&dx)[1]) const { dx[0] = rule.gradient(Scalar<T>(x[0]), Scalar<T>(x[1])).value; }
};

template <class Rule, class T>
void binary_elements(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(y.shape(), a, b);
  if (plan.rank == 1 && plan.step(0) == 1 && plan.step(1) == 1)
    return map(cuda, "binary", OfBoth<Rule, T>{}, MapArrays<T, 2, 1>{{a.data<T>(), b.data<T>()}, {y.data<T>()}}, y.elements());
  binary_rows<Rule, T>(cuda, "binary", a, b, y);
}

/// x -> y for a rule that holds numbers.
template <class T, class Formula>
void map_formula(Cuda& cuda, const char* name, const Formula& formula, const Tensor& x, const Tensor& y) {
  map(cuda, name, Mapped<Formula, T>{formula}, MapArrays<T, 1, 1>{{x.data<T>()}, {y.data<T>()}}, x.elements());
}

/// {x, dy} -> dx (+ sum).
template <class T, class Rule>
void map_slope(Cuda& cuda, const char* name, const Rule& rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  if (sum.defined())
    return map(cuda, name, SlopeAddedOf<Rule, T>{rule}, MapArrays<T, 3, 1>{{x.data<T>(), dy.data<T>(), sum.data<T>()}, {dx.data<T>()}},
               x.elements());
  map(cuda, name, SlopeOf<Rule, T>{rule}, MapArrays<T, 2, 1>{{x.data<T>(), dy.data<T>()}, {dx.data<T>()}}, x.elements());
}

}  // namespace

void unary(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "unary", [&]<class T>() {
    on_unary(rule, [&]<class Rule>() {
      map(cuda, "unary", ValueOf<Rule, T>{}, MapArrays<T, 1, 1>{{x.data<T>()}, {y.data<T>()}}, x.elements());
    });
  });
}

void unary_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  on_float(x.dtype(), "unary_backward",
           [&]<class T>() { on_unary(rule, [&]<class Rule>() { map_slope<T>(cuda, "unary_backward", Rule{}, x, dy, sum, dx); }); });
}

void binary(Cuda& cuda, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  if (is_floating(y.dtype()))
    return on_float(y.dtype(), "binary",
                    [&]<class T>() { on_binary(rule, [&]<class Rule>() { binary_elements<Rule, T>(cuda, a, b, y); }); });
  on_index(y.dtype(), "binary", [&]<class T>() {
    on_integer_binary(rule, [&]<class Rule>() { binary_rows<Rule, T, T, std::make_unsigned_t<T>>(cuda, "binary", a, b, y); });
  });
}

void numbers(Cuda& cuda, WithNumbers rule, const Tensor& x, double first, double second, const Tensor& y) {
  on_float(x.dtype(), "numbers", [&]<class T>() {
    with_numbers<T>(rule, first, second, [&](const auto& formula) { map_formula<T>(cuda, "numbers", formula, x, y); });
  });
}

void numbers_backward(Cuda& cuda, WithNumbers rule, const Tensor& x, double number, const Tensor& dy, const Tensor& sum, const Tensor& dx) {
  on_float(x.dtype(), "numbers_backward", [&]<class T>() {
    with_slope<T>(rule, number, [&](const auto& formula) { map_slope<T>(cuda, "numbers_backward", formula, x, dy, sum, dx); });
  });
}

void clamp(Cuda& cuda, const Tensor& x, double low, double high, const Tensor& y) {
  on_float(x.dtype(), "clamp", [&]<class T>() { map_formula<T>(cuda, "clamp", rules::Clamp<T>(low, high), x, y); });
}

void clamp_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx) {
  on_float(y.dtype(), "clamp_backward", [&]<class T>() {
    map(cuda, "clamp_backward", ClampedGradient<T>{{low, high}}, MapArrays<T, 2, 1>{{y.data<T>(), dy.data<T>()}, {dx.data<T>()}},
        y.elements());
  });
}

}  // namespace sluice::kernels
