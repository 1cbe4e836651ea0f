#pragma once
#include "core/tensor.h"

namespace sluice {

/// In-place steps of optimizers, one fused pass each. In all of them g = gradient_scale * gradient (the scale serves clipping).
/// Shape   parameter, gradient and states alike and contiguous.
/// Dtypes  f32, f64; all the same.
/// Errors  UsageError when one of them differs from the parameter.

struct SgdStep {
  double learning_rate;
  double gradient_scale;
  double weight_decay;  ///< added to g as weight_decay * parameter
  double momentum;
  bool nesterov;
};
/// velocity = momentum velocity + g;  parameter -= learning_rate (nesterov ? g + momentum velocity : velocity).
/// An undefined velocity stands for no momentum.
void sgd_step(const Tensor& parameter, const Tensor& gradient, const Tensor& velocity, const SgdStep& step);

struct AdamStep {
  double learning_rate;
  double gradient_scale;
  double beta1, beta2, epsilon;
  double weight_decay;
  bool decoupled;  ///< AdamW: parameter *= 1 - learning_rate weight_decay; else weight_decay * parameter is added to g
  int64_t step;    ///< from 1, for the bias correction
};
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  parameter -= learning_rate m' / (sqrt(v') + epsilon), where
/// m' = m / (1 - beta1^step) and v' = v / (1 - beta2^step).
/// Source  Kingma & Ba 2014, arXiv:1412.6980; Loshchilov & Hutter 2017, arXiv:1711.05101.
void adam_step(const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v, const AdamStep& step);

namespace kernels {
void sgd_step(Cpu& cpu, const Tensor& parameter, const Tensor& gradient, const Tensor& velocity, const SgdStep& step);
void adam_step(Cpu& cpu, const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v, const AdamStep& step);
}  // namespace kernels

}  // namespace sluice
