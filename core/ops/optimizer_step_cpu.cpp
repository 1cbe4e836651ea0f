#include <cmath>

#include "core/ops/lanes.h"
#include "core/ops/optimizer_step.h"

namespace sluice::kernels {

namespace {

/// The dtypes that hold master weights.
template <class F>
void on_master(DType dtype, const F& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  f.template operator()<float>();
}

}  // namespace

void sgd_step(Cpu& cpu, const Tensor& parameter, const Tensor& gradient, const Tensor& velocity, const SgdStep& step) {
  on_master(parameter.dtype(), [&]<class T>() {
    using V = Lanes<T>;
    const V rate(step.learning_rate), scale(step.gradient_scale), decay(step.weight_decay), momentum(step.momentum);
    T *p = parameter.data<T>(), *past = velocity.defined() ? velocity.data<T>() : nullptr;
    const T* from = gradient.data<T>();
    cpu.parallel_for(parameter.elements(), grain_for(1), [=, nesterov = step.nesterov](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) {
        const V old = load(p), g = scale * load(from) + decay * old;
        if (!past) return store(p, old - rate * g);
        const V speed = momentum * load(past) + g;
        store(past, speed);
        store(p, old - rate * (nesterov ? g + momentum * speed : speed));
      });
    });
  });
}

void adam_step(Cpu& cpu, const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v, const AdamStep& step) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  on_master(parameter.dtype(), [&]<class T>() {
    using V = Lanes<T>;
    const V rate(step.learning_rate / correction1), scale(step.gradient_scale), epsilon(step.epsilon), root(1 / std::sqrt(correction2));
    const V keep(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1), decay(step.decoupled ? 0 : step.weight_decay);
    const V beta1(step.beta1), rest1(1 - step.beta1), beta2(step.beta2), rest2(1 - step.beta2);
    T *p = parameter.data<T>(), *first = m.data<T>(), *second = v.data<T>();
    const T* from = gradient.data<T>();
    cpu.parallel_for(parameter.elements(), grain_for(1), [=](int64_t begin, int64_t end) {
      for_lanes<T>(begin, end, [&](auto load, auto store) {
        const V old = load(p), g = scale * load(from) + decay * old;
        const V mean = beta1 * load(first) + rest1 * g, square = beta2 * load(second) + rest2 * (g * g);
        store(first, mean);
        store(second, square);
        store(p, keep * old - rate * mean / (sqrt(square) * root + epsilon));
      });
    });
  });
}

}  // namespace sluice::kernels
