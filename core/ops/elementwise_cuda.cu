#include "core/ops/broadcast.h"
#include "core/ops/elementwise.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

template <class Rule, class T>
struct ValueOf {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = Rule::value(Scalar<T>(x[0])).value; }
};

/// {x, dy} -> {dx}
template <class Rule, class T>
struct SlopeOf {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[2], C (&dx)[1]) const { dx[0] = x[1] * Rule::slope(Scalar<T>(x[0])).value; }
};

template <class Rule, class T>
struct OfBoth {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[2], C (&y)[1]) const { y[0] = Rule::value(x[0], x[1]); }
};

template <class T>
struct Scaled {
  using C = compute_t<T>;
  C factor;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = factor * x[0]; }
};

template <class T>
struct Clamped {
  using C = compute_t<T>;
  rules::Clamp<T> rule;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = rule.value(Scalar<T>(x[0])).value; }
};

/// {y, dy} -> {dx}
template <class T>
struct ClampedGradient {
  using C = compute_t<T>;
  rules::Clamp<T> rule;
  __device__ void operator()(const C (&x)[2], C (&dx)[1]) const { dx[0] = rule.gradient(Scalar<T>(x[0]), Scalar<T>(x[1])).value; }
};

/// kWidth neighbours of an operand in a row, `step` elements apart; with step 1 they lie at an aligned address.
template <int kWidth, class T>
__device__ Run<kWidth, T> load_operand(const T* from, int64_t step) {
  if (step == 1) return load_run<kWidth>(from);
  Run<kWidth, T> values;
  for (int i = 0; i < kWidth; ++i) values.at[i] = from[i * step];
  return values;
}

/// A thread makes kWidth neighbours of a row of the result. y may be a.
template <class Rule, int kWidth, class T>
__global__ void binary_runs(const T* a, const T* b, T* y, Broadcast plan, int64_t count) {
  using C = compute_t<T>;
  const int64_t first = grid_index() * kWidth;
  if (first >= count) return;
  const int64_t row = plan.rank == 1 ? 0 : first / plan.columns(), column = first - row * plan.columns();
  const int64_t a_step = plan.a_step[plan.rank - 1], b_step = plan.b_step[plan.rank - 1];
  Run<kWidth, T> left = load_operand<kWidth>(a + plan.offset(plan.a_step, row) + column * a_step, a_step);
  const Run<kWidth, T> right = load_operand<kWidth>(b + plan.offset(plan.b_step, row) + column * b_step, b_step);
  for (int i = 0; i < kWidth; ++i) left.at[i] = static_cast<T>(Rule::value(static_cast<C>(left.at[i]), static_cast<C>(right.at[i])));
  store_run(y + first, left);
}

/// An operand that runs along rows starts each of them at a pack.
template <class T>
bool starts_at_packs(const Broadcast& plan, const T* operand, const int64_t* steps) {
  if (steps[plan.rank - 1] != 1) return true;
  bool starts = packs_fit<T>(0, operand);
  for (int axis = 0; axis < plan.rank - 1; ++axis) starts = starts && steps[axis] % Pack<T>::kCount == 0;
  return starts;
}

template <class Rule, class T>
void binary_elements(Cuda& cuda, const Tensor& a, const Tensor& b, const Tensor& y) {
  const Broadcast plan(a, b, y.shape());
  const T *from_a = a.data<T>(), *from_b = b.data<T>();
  T* to = y.data<T>();
  const int64_t count = y.elements();
  if (plan.rank == 1 && plan.a_step[0] == 1 && plan.b_step[0] == 1)
    return map(cuda, "binary", OfBoth<Rule, T>{}, MapArrays<T, 2, 1>{{from_a, from_b}, {to}}, count);
  constexpr int kWidth = Pack<T>::kCount;
  const auto run = [&]<int kRun>() {
    const dim3 grid(static_cast<unsigned>((count / kRun + kThreads - 1) / kThreads));
    launch(cuda, "binary", {grid, kThreads}, binary_runs<Rule, kRun, T>, from_a, from_b, to, plan, count);
  };
  if (packs_fit<T>(plan.columns(), to) && starts_at_packs(plan, from_a, plan.a_step) && starts_at_packs(plan, from_b, plan.b_step))
    return run.template operator()<kWidth>();
  run.template operator()<1>();
}

}  // namespace

void unary(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& y) {
  on_float(x.dtype(), "unary", [&]<class T>() {
    on_unary(rule, [&]<class Rule>() {
      map(cuda, "unary", ValueOf<Rule, T>{}, MapArrays<T, 1, 1>{{x.data<T>()}, {y.data<T>()}}, x.elements());
    });
  });
}

void unary_backward(Cuda& cuda, Unary rule, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  on_float(x.dtype(), "unary_backward", [&]<class T>() {
    on_unary(rule, [&]<class Rule>() {
      map(cuda, "unary_backward", SlopeOf<Rule, T>{}, MapArrays<T, 2, 1>{{x.data<T>(), dy.data<T>()}, {dx.data<T>()}}, x.elements());
    });
  });
}

void binary(Cuda& cuda, Binary rule, const Tensor& a, const Tensor& b, const Tensor& y) {
  if (y.elements() == 0) return;
  on_float(y.dtype(), "binary", [&]<class T>() { on_binary(rule, [&]<class Rule>() { binary_elements<Rule, T>(cuda, a, b, y); }); });
}

void scale(Cuda& cuda, const Tensor& x, double factor, const Tensor& y) {
  on_float(x.dtype(), "scale", [&]<class T>() {
    map(cuda, "scale", Scaled<T>{static_cast<compute_t<T>>(factor)}, MapArrays<T, 1, 1>{{x.data<T>()}, {y.data<T>()}}, x.elements());
  });
}

void clamp(Cuda& cuda, const Tensor& x, double low, double high, const Tensor& y) {
  on_float(x.dtype(), "clamp", [&]<class T>() {
    map(cuda, "clamp", Clamped<T>{{low, high}}, MapArrays<T, 1, 1>{{x.data<T>()}, {y.data<T>()}}, x.elements());
  });
}

void clamp_backward(Cuda& cuda, const Tensor& y, const Tensor& dy, double low, double high, const Tensor& dx) {
  on_float(y.dtype(), "clamp_backward", [&]<class T>() {
    map(cuda, "clamp_backward", ClampedGradient<T>{{low, high}}, MapArrays<T, 2, 1>{{y.data<T>(), dy.data<T>()}, {dx.data<T>()}},
        y.elements());
  });
}

}  // namespace sluice::kernels
