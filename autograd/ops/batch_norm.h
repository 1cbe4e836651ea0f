#pragma once
#include "autograd/var.h"
#include "core/ops/batch_norm.h"

namespace sluice {

/// Differentiable batch_norm over all axes but the last; keeps x and two numbers a channel. `relu` is applied after it, in the same pass.
struct BatchNormalizedVar {
  Var y;
  Tensor mean, variance;  ///< of this batch
};
BatchNormalizedVar batch_norm(const Var& x, const Var& gamma, const Var& beta, double epsilon, bool relu = false);

/// With a given mean and variance, which are constants; differentiable in the rest.
Var batch_norm_inference(const Var& x, const Var& gamma, const Var& beta, const Tensor& mean, const Tensor& variance, double epsilon,
                         bool relu = false);

}  // namespace sluice
