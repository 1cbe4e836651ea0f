#include <array>
#include <tuple>

#include "core/cpu/cpu.h"
#include "core/ops/optimizer_slots_cpu.h"

namespace sluice::kernels {

namespace {

/// Steps parameters of kStates states by a rule made from the settings of the step.
template <template <class> class Rule, int kStates, class Settings>
void step_slots(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const Settings& settings, const GradientClip& clip) {
  const double factor = gradient_factor(clip);
  if (std::isnan(factor)) return;
  for (const OptimizerSlot& slot : slots)
    on_master(slot.parameter.dtype(), [&]<class T>() {
      T* p = slot.parameter.data<T>();
      std::array<T*, kStates> kept;
      for (int k = 0; k < kStates; ++k) kept[k] = slot.states[k].data<T>();
      const T* from = slot.gradient.data<T>();
      cpu.parallel_for(slot.parameter.elements(), grain_for(1), [&](int64_t begin, int64_t end) {
        const Rule<Lanes<T>> rule(settings, factor, slot.decay);
        for_lanes<T>(begin, end, [&](auto load, auto store) {
          Lanes<T> parameter = load(p);
          std::array<Lanes<T>, kStates> states;
          for (int k = 0; k < kStates; ++k) states[k] = load(kept[k]);
          std::apply([&](auto&... state) { rule.apply(parameter, state..., load(from)); }, states);
          for (int k = 0; k < kStates; ++k) store(kept[k], states[k]);
          store(p, parameter);
        });
        write_working(slot, begin, end);
      });
    });
}

}  // namespace

void sgd_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip) {
  if (step.momentum == 0) return step_slots<rules::Sgd, 0>(cpu, slots, step, clip);
  step_slots<rules::Sgd, 1>(cpu, slots, step, clip);
}

void adam_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip) {
  if (step.beta1 == 0) return step_slots<rules::Adam, 1>(cpu, slots, rules::AdamFactors(step), clip);
  step_slots<rules::Adam, 2>(cpu, slots, rules::AdamFactors(step), clip);
}

void rmsprop_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip) {
  if (step.momentum == 0) return step_slots<rules::RmsProp, 1>(cpu, slots, step, clip);
  step_slots<rules::RmsProp, 2>(cpu, slots, step, clip);
}

void lion_step(Cpu& cpu, const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip) {
  step_slots<rules::Lion, 1>(cpu, slots, step, clip);
}

void round_stochastically(Cpu& cpu, const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element) {
  cpu.parallel_for(weights.elements(), grain_for(1),
                   [&, from = weights.data<float>(), to = working.data<bfloat16>()](int64_t begin, int64_t end) {
                     round_run(from, to, stream, first_element, begin, end);
                   });
}

}  // namespace sluice::kernels
