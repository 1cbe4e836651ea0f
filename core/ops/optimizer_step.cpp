#include "core/ops/optimizer_step.h"

#include "core/dispatch.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/optimizer_rules.h"

namespace sluice {

namespace {

void require_rounded_together(const char* op, int64_t first_element) {
  require(first_element >= 0 && first_element % rules::kRoundedTogether == 0, op, ": needs a first element that is a multiple of ",
          rules::kRoundedTogether, ", got ", first_element, "; cut tensors into parts at such elements");
}

void check_like(const char* op, const OptimizerSlot& slot, const char* what, const Tensor& x, DType dtype) {
  require(x.defined() && x.shape() == slot.parameter.shape() && x.dtype() == dtype, op, ": needs ", what, " ", name_of(dtype),
          " like the parameter, ", slot.parameter, ", got ", x);
  require(x.is_contiguous(), op, ": needs ", what, " that is contiguous, got a strided view, ", x, "; take contiguous() of it");
}

void check(const char* op, const OptimizerSlot& slot) {
  const Tensor& parameter = slot.parameter;
  require(parameter.dtype() == DType::f32 || parameter.dtype() == DType::f64, op, ": needs a parameter of f32 or f64, got ", parameter);
  require(parameter.is_contiguous(), op, ": needs a contiguous parameter, got a strided view of ", parameter.shape());
  check_like(op, slot, "a gradient", slot.gradient, parameter.dtype());
  if (!slot.working.defined()) return;
  require(parameter.dtype() == DType::f32, op, ": needs a parameter of f32 for a working copy, got ", parameter);
  check_like(op, slot, "a working copy", slot.working, DType::bf16);
  require_rounded_together(op, slot.first_element);
}

/// As require_slots(), of steps whose states are like the parameter.
void check(const char* op, const std::vector<OptimizerSlot>& slots, size_t states, const GradientClip& clip) {
  require_slots(op, slots, clip);
  for (const OptimizerSlot& slot : slots) {
    require(slot.states.size() == states, op, ": needs ", states, " states a parameter, got ", slot.states.size());
    for (const Tensor& state : slot.states) check_like(op, slot, "a state", state, slot.parameter.dtype());
  }
}

std::vector<Operand> operands_of(const std::vector<OptimizerSlot>& slots, const GradientClip& clip) {
  std::vector<Operand> operands{clip.sum_of_squares};
  for (const OptimizerSlot& slot : slots) {
    operands.insert(operands.end(), {slot.parameter, slot.gradient, slot.working});
    operands.insert(operands.end(), slot.states.begin(), slot.states.end());
  }
  return operands;
}

/// Reads gradients, and reads and writes all else, but for the working copies, which are only written.
Cost step_cost(const std::vector<OptimizerSlot>& slots, double flops) {
  Cost cost;
  for (const auto& slot : slots) {
    const auto bytes = static_cast<double>(slot.parameter.bytes()), kept = bytes * static_cast<double>(1 + slot.states.size());
    const double copied = slot.working.defined() ? static_cast<double>(slot.working.bytes()) : 0;
    cost += {flops * static_cast<double>(slot.parameter.elements()), kept + bytes, kept + copied};
  }
  return cost;
}

}  // namespace

void require_slots(const char* op, const std::vector<OptimizerSlot>& slots, const GradientClip& clip) {
  for (const OptimizerSlot& slot : slots) check(op, slot);
  const Tensor& sum = clip.sum_of_squares;
  require(!sum.defined() || (sum.rank() == 0 && sum.dtype() == DType::f64), op, ": needs a sum of squares f64 [], got ", sum);
}

void sgd_step(const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip) {
  if (slots.empty()) return;
  check("sgd_step", slots, step.momentum == 0 ? 0 : 1, clip);
  run_kernel("sgd_step", operands_of(slots, clip), step_cost(slots, 6),
             [&](auto& context) { kernels::sgd_step(context, slots, step, clip); });
}

void adam_step(const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip) {
  if (slots.empty()) return;
  check("adam_step", slots, step.beta1 == 0 ? 1 : 2, clip);
  require(step.step >= 1, "adam_step: needs a step count from 1, got ", step.step);
  run_kernel("adam_step", operands_of(slots, clip), step_cost(slots, 14),
             [&](auto& context) { kernels::adam_step(context, slots, step, clip); });
}

void rmsprop_step(const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip) {
  if (slots.empty()) return;
  check("rmsprop_step", slots, step.momentum == 0 ? 1 : 2, clip);
  run_kernel("rmsprop_step", operands_of(slots, clip), step_cost(slots, 11),
             [&](auto& context) { kernels::rmsprop_step(context, slots, step, clip); });
}

void lion_step(const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip) {
  if (slots.empty()) return;
  check("lion_step", slots, 1, clip);
  run_kernel("lion_step", operands_of(slots, clip), step_cost(slots, 10),
             [&](auto& context) { kernels::lion_step(context, slots, step, clip); });
}

void round_stochastically(const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element) {
  require(weights.dtype() == DType::f32 && working.dtype() == DType::bf16 && weights.shape() == working.shape() &&
              weights.is_contiguous() && working.is_contiguous(),
          "round_stochastically: needs f32 weights and a bf16 copy, alike and contiguous, got ", weights, " and ", working);
  require_rounded_together("round_stochastically", first_element);
  const Cost cost{static_cast<double>(weights.elements()), static_cast<double>(weights.bytes()), static_cast<double>(working.bytes())};
  run_kernel("round_stochastically", {weights, working}, cost,
             [&](auto& context) { kernels::round_stochastically(context, weights, working, stream, first_element); });
}

}  // namespace sluice
