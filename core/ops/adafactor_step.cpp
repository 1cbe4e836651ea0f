#include "core/ops/adafactor_step.h"

#include <algorithm>

#include "core/dispatch.h"

namespace sluice {

namespace {

void check(const OptimizerSlot& slot) {
  const std::vector<Shape> shapes = adafactor_state_shapes(slot.parameter.shape());
  require(slot.states.size() == shapes.size(), "adafactor_step: needs ", shapes.size(), " states of a parameter ", slot.parameter.shape(),
          ", got ", slot.states.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    require(slot.states[i].defined() && slot.states[i].shape() == shapes[i] && slot.states[i].dtype() == slot.parameter.dtype() &&
                slot.states[i].is_contiguous(),
            "adafactor_step: needs a state ", name_of(slot.parameter.dtype()), " ", shapes[i], " of a parameter ", slot.parameter.shape(),
            ", contiguous, got ", slot.states[i]);
  require(slot.first_element == 0, "adafactor_step: needs whole parameters, got one from element ", slot.first_element,
          " on; the step of an element depends on its row and column");
}

kernels::AdafactorScratch scratch_for(const OptimizerSlot& slot) {
  const Tensor& parameter = slot.parameter;
  const kernels::AdafactorMatrix matrix(parameter.shape());
  const int64_t chunks = (parameter.elements() + kernels::kAdafactorChunk - 1) / kernels::kAdafactorChunk;
  kernels::AdafactorScratch scratch{empty({2 + 2 * chunks}, DType::f64, parameter.device_ptr()), {}};
  if (matrix.is_factored && parameter.device().backend() == DeviceKind::cuda)
    scratch.columns = empty({kernels::adafactor_row_parts(matrix.rows), matrix.columns}, parameter.dtype(), parameter.device_ptr());
  return scratch;
}

Cost cost_of(const OptimizerSlot& slot) {
  const auto bytes = static_cast<double>(slot.parameter.bytes());
  double states = 0;
  for (const Tensor& state : slot.states) states += static_cast<double>(state.bytes());
  const double copied = slot.working.defined() ? static_cast<double>(slot.working.bytes()) : 0;
  return {16.0 * static_cast<double>(slot.parameter.elements()), 5 * bytes + states, bytes + states + copied};
}

}  // namespace

namespace kernels {

AdafactorMatrix::AdafactorMatrix(const Shape& parameter)
    : rows(parameter.rank() > 1 ? parameter[0] : 1),
      columns(rows == 0 ? 0 : parameter.elements() / rows),
      is_factored(parameter.rank() > 1) {}

int64_t adafactor_row_parts(int64_t rows) { return std::clamp<int64_t>(rows / 64, 1, 64); }

}  // namespace kernels

std::vector<Shape> adafactor_state_shapes(const Shape& parameter) {
  const kernels::AdafactorMatrix matrix(parameter);
  if (!matrix.is_factored) return {parameter};
  return {{matrix.rows}, {matrix.columns}};
}

void adafactor_step(const std::vector<OptimizerSlot>& slots, const AdafactorStep& step, const GradientClip& clip) {
  require(step.step >= 1, "adafactor_step: needs a step count from 1, got ", step.step);
  require_slots("adafactor_step", slots, clip);
  for (const OptimizerSlot& slot : slots) {
    check(slot);
    if (slot.parameter.elements() == 0) continue;
    std::vector<Operand> operands{clip.sum_of_squares, slot.parameter, slot.gradient, slot.working};
    operands.insert(operands.end(), slot.states.begin(), slot.states.end());
    const kernels::AdafactorScratch scratch = scratch_for(slot);
    run_kernel("adafactor_step", operands, cost_of(slot),
               [&](auto& context) { kernels::adafactor_step(context, slot, step, clip, scratch); });
  }
}

}  // namespace sluice
