#include <array>
#include <tuple>

#include "core/ops/lanes.h"
#include "core/ops/optimizer_rules.h"

namespace sluice::kernels {

namespace {

/// The dtypes that hold master weights.
template <class F>
void on_master(DType dtype, const F& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  f.template operator()<float>();
}

double gradient_factor(const GradientClip& clip) {
  return rules::gradient_factor(clip.sum_of_squares.defined() ? clip.sum_of_squares.data<double>() : nullptr, clip.largest_norm);
}

/// `begin` and `first_element` are multiples of kRoundedTogether.
void round_run(const float* from, bfloat16* to, const RandomStream& stream, int64_t first_element, int64_t begin, int64_t end) {
  for (int64_t first = begin; first < end; first += rules::kRoundedTogether) {
    const auto words = stream.words(static_cast<uint64_t>((first_element + first) / rules::kRoundedTogether), 0);
    const int count = static_cast<int>(std::min<int64_t>(rules::kRoundedTogether, end - first));
    for (int i = 0; i < count; ++i) to[first + i] = rules::round_stochastically(from[first + i], words, i);
  }
}

/// The working copy of elements that were just stepped and still lie in the cache.
void write_working(const OptimizerSlot& slot, int64_t begin, int64_t end) {
  if (!slot.working.defined()) return;
  const float* from = slot.parameter.data<float>();
  auto* to = slot.working.data<bfloat16>();
  if (slot.stochastic) return round_run(from, to, *slot.stochastic, slot.first_element, begin, end);
  for_lanes<float>(begin, end, [&](auto load, auto store) { store(to, load(from)); });
}

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
