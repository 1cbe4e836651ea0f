#pragma once
#include <bit>
#include <cmath>

#include "core/dtype.h"
#include "core/host_device.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/optimizer_step.h"

/// The arithmetic of optimizer steps, written once for CPU and CUDA kernels: V is a number or a register of them.
namespace sluice::rules {

/// What all gradients of a step are multiplied by. NaN says that the norm is not finite and that nothing may be written.
/// `sum_of_squares` is null when gradients are taken as they are.
SLUICE_HD inline double gradient_factor(const double* sum_of_squares, double largest_norm) {
  if (sum_of_squares == nullptr) return 1;
  const double norm = std::sqrt(*sum_of_squares);
  if (!std::isfinite(norm)) return NAN;
  return largest_norm > 0 && norm > largest_norm ? largest_norm / norm : 1;
}

template <class V>
struct Sgd {
  V rate, factor, decay, momentum;
  bool nesterov;

  SLUICE_HD Sgd(const SgdStep& step, double gradient_factor, bool decays)
      : rate(step.learning_rate),
        factor(gradient_factor),
        decay(decays ? step.weight_decay : 0),
        momentum(step.momentum),
        nesterov(step.nesterov) {}

  SLUICE_HD void apply(V& parameter, V gradient) const { parameter = parameter - rate * (factor * gradient + decay * parameter); }
  SLUICE_HD void apply(V& parameter, V& velocity, V gradient) const {
    const V g = factor * gradient + decay * parameter;
    velocity = momentum * velocity + g;
    parameter = parameter - rate * (nesterov ? g + momentum * velocity : velocity);
  }
};

template <class V>
struct RmsProp {
  V rate, factor, decay, average, rest, momentum, epsilon;

  SLUICE_HD RmsProp(const RmsPropStep& step, double gradient_factor, bool decays)
      : rate(step.learning_rate),
        factor(gradient_factor),
        decay(decays ? step.weight_decay : 0),
        average(step.average),
        rest(1 - step.average),
        momentum(step.momentum),
        epsilon(step.epsilon) {}

  SLUICE_HD void apply(V& parameter, V& square, V gradient) const {
    const V g = with_decay(gradient, parameter);
    parameter = parameter - move(square, g);
  }
  SLUICE_HD void apply(V& parameter, V& square, V& velocity, V gradient) const {
    const V g = with_decay(gradient, parameter);
    velocity = momentum * velocity + move(square, g);
    parameter = parameter - velocity;
  }

 private:
  SLUICE_HD V with_decay(V gradient, V parameter) const { return factor * gradient + decay * parameter; }
  SLUICE_HD V move(V& square, V g) const {
    using std::sqrt;
    square = average * square + rest * (g * g);
    return rate * g / sqrt(square + epsilon);
  }
};

/// The numbers of a step that all elements share, made once on the host.
struct AdamFactors {
  double rate, root, shrink, decay, beta1, beta2, epsilon;

  explicit AdamFactors(const AdamStep& step)
      : rate(step.learning_rate / (1 - std::pow(step.beta1, static_cast<double>(step.step)))),
        root(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.step)))),
        shrink(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1),
        decay(step.decoupled ? 0 : step.weight_decay),
        beta1(step.beta1),
        beta2(step.beta2),
        epsilon(step.epsilon) {}
};

template <class V>
struct Adam {
  V rate, root, shrink, decay, beta1, rest1, beta2, rest2, epsilon, factor;

  SLUICE_HD Adam(const AdamFactors& of, double gradient_factor, bool decays)
      : rate(of.rate),
        root(of.root),
        shrink(decays ? of.shrink : 1),
        decay(decays ? of.decay : 0),
        beta1(of.beta1),
        rest1(1 - of.beta1),
        beta2(of.beta2),
        rest2(1 - of.beta2),
        epsilon(of.epsilon),
        factor(gradient_factor) {}

  /// beta1 = 0: m is the gradient.
  SLUICE_HD void apply(V& parameter, V& v, V gradient) const {
    const V g = factor * gradient + decay * parameter;
    move(parameter, g, v, g);
  }
  SLUICE_HD void apply(V& parameter, V& m, V& v, V gradient) const {
    const V g = factor * gradient + decay * parameter;
    m = beta1 * m + rest1 * g;
    move(parameter, m, v, g);
  }

 private:
  SLUICE_HD void move(V& parameter, V m, V& v, V g) const {
    using std::sqrt;
    v = beta2 * v + rest2 * (g * g);
    parameter = shrink * parameter - rate * m / (sqrt(v) * root + epsilon);
  }
};

template <class V>
struct Lion {
  V rate, shrink, beta1, rest1, beta2, rest2, factor;

  SLUICE_HD Lion(const LionStep& step, double gradient_factor, bool decays)
      : rate(step.learning_rate),
        shrink(decays ? 1 - step.learning_rate * step.weight_decay : 1),
        beta1(step.beta1),
        rest1(1 - step.beta1),
        beta2(step.beta2),
        rest2(1 - step.beta2),
        factor(gradient_factor) {}

  SLUICE_HD void apply(V& parameter, V& m, V gradient) const {
    const V g = factor * gradient, way = beta1 * m + rest1 * g;
    parameter = shrink * parameter - rate * Sign::value(way);
    m = beta2 * m + rest2 * g;
  }
};

/// Elements that share one block of random words: each takes half a word.
inline constexpr int kRoundedTogether = 8;

/// One of the two neighbours in bf16: adding 16 random bits before the lower half is cut off carries with the right probability.
/// `element` counts within a block of kRoundedTogether, whose words these are.
SLUICE_HD inline bfloat16 round_stochastically(float value, const std::array<uint32_t, 4>& words, int element) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bfloat16(value);  // the sum could turn NaN into a number
  bfloat16 rounded;
  rounded.bits = static_cast<uint16_t>((bits + (words[element / 2] >> 16 * (element % 2) & 0xffffu)) >> 16);
  return rounded;
}

}  // namespace sluice::rules
