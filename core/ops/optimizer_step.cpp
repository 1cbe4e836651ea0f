#include "core/ops/optimizer_step.h"

#include "core/dispatch.h"

namespace sluice {

namespace {

void check(const char* op, const Tensor& parameter, std::initializer_list<Tensor> others) {
  require(parameter.dtype() == DType::f32 || parameter.dtype() == DType::f64, op, ": needs a parameter of f32 or f64, got ", parameter);
  require(parameter.is_contiguous(), op, ": needs a contiguous parameter, got a strided view of ", parameter.shape());
  for (const Tensor& other : others)
    require(other.defined() && other.shape() == parameter.shape() && other.dtype() == parameter.dtype() && other.is_contiguous(), op,
            ": needs gradient and states like the parameter, contiguous: ", parameter, ", got ", other);
}

/// Reads all `tensors` of the parameter's size, writes all but the gradient.
Cost step_cost(const Tensor& parameter, double flops, int tensors) {
  const auto bytes = static_cast<double>(parameter.bytes());
  return {flops * static_cast<double>(parameter.elements()), bytes * tensors, bytes * (tensors - 1)};
}

}  // namespace

void sgd_step(const Tensor& parameter, const Tensor& gradient, const Tensor& velocity, const SgdStep& step) {
  const Tensor from = gradient.contiguous();
  check("sgd_step", parameter, {from, velocity.defined() ? velocity : from});
  run_kernel(parameter.device(), step_cost(parameter, 6, velocity.defined() ? 3 : 2),
             [&](auto& context) { kernels::sgd_step(context, parameter, from, velocity, step); });
}

void adam_step(const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v, const AdamStep& step) {
  const Tensor from = gradient.contiguous();
  check("adam_step", parameter, {from, m, v});
  require(step.step >= 1, "adam_step: needs a step count from 1, got ", step.step);
  run_kernel(parameter.device(), step_cost(parameter, 14, 4),
             [&](auto& context) { kernels::adam_step(context, parameter, from, m, v, step); });
}

}  // namespace sluice
