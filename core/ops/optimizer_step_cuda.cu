#include "core/ops/array_list_cuda.cuh"
#include "core/ops/optimizer_slots_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = 8192;  // elements of a block: so many that finding its slot costs nothing, and few beside a model
constexpr int kMostSlots = 40;    // of a launch

template <class T>
using Slots = ArrayList<Slot<T>, kMostSlots>;

static_assert(sizeof(Slots<float>) + sizeof(Clip) + sizeof(rules::AdamFactors) <= kArgumentBytes);

template <int kStates, class T, class Rule>
__device__ void step_pack(const Slot<T>& slot, const Rule& rule, int64_t first) {
  using V = Scalar<T>;
  Pack<T> parameter = read_pack(slot.parameter, first, slot.count, slot.aligned), states[2];
  const Pack<T> gradient = read_pack(slot.gradient, first, slot.count, slot.aligned);
  for (int k = 0; k < kStates; ++k) states[k] = read_pack(slot.states[k], first, slot.count, slot.aligned);
  for (int i = 0; i < Pack<T>::kCount; ++i) {
    V value = parameter.at[i];
    if constexpr (kStates == 0) {
      rule.apply(value, V(gradient.at[i]));
    } else if constexpr (kStates == 1) {
      V state = states[0].at[i];
      rule.apply(value, state, V(gradient.at[i]));
      states[0].at[i] = state.value;
    } else {
      V first_state = states[0].at[i], second_state = states[1].at[i];
      rule.apply(value, first_state, second_state, V(gradient.at[i]));
      states[0].at[i] = first_state.value;
      states[1].at[i] = second_state.value;
    }
    parameter.at[i] = value.value;
  }
  write_pack(slot.parameter, first, slot.count, slot.aligned, parameter);
  for (int k = 0; k < kStates; ++k) write_pack(slot.states[k], first, slot.count, slot.aligned, states[k]);
  if constexpr (std::is_same_v<T, float>)
    if (slot.working) write_working(slot, first, parameter);
}

/// Rule is made from the settings of the step, the gradients' factor and whether the slot decays.
template <class Rule, int kStates, class T, class Settings>
__global__ void step_slots(const __grid_constant__ Slots<T> slots, Settings settings, Clip clip) {
  const double factor = clip.factor();
  if (factor != factor) return;  // the norm is not finite
  const Slot<T>& slot = slots.of_block();
  const Rule rule(settings, factor, slot.decays);
  const int64_t begin = (blockIdx.x - slot.first_block) * kChunk, end = min(slot.count, begin + kChunk);
  constexpr int kWidth = Pack<T>::kCount;
  for (int64_t first = begin + threadIdx.x * kWidth; first < end; first += kThreads * kWidth) step_pack<kStates>(slot, rule, first);
}

__global__ void round_slot(Slot<float> slot) {
  const int64_t first = grid_index() * Pack<float>::kCount;
  if (first < slot.count) write_working(slot, first, read_pack(slot.parameter, first, slot.count, slot.aligned));
}

/// Steps the slots of dtype T.
template <class T, class Rule, int kStates, class Settings>
void step_slots_of(Cuda& cuda, const char* name, const std::vector<OptimizerSlot>& slots, const Settings& settings,
                   const GradientClip& clip) {
  std::vector<Slot<T>> own;
  for (const OptimizerSlot& slot : slots)
    if (slot.parameter.dtype() == dtype_of<T>()) own.push_back(slot_of<T>(slot));
  in_lists<kMostSlots>(own, kChunk, [&](const Slots<T>& list) {
    launch(cuda, name, {list.blocks, kThreads}, step_slots<Rule, kStates, T, Settings>, list, settings, Clip(clip));
  });
}

template <template <class> class Rule, int kStates, class Settings>
void step_all(Cuda& cuda, const char* name, const std::vector<OptimizerSlot>& slots, const Settings& settings, const GradientClip& clip) {
  step_slots_of<float, Rule<Scalar<float>>, kStates>(cuda, name, slots, settings, clip);
  step_slots_of<double, Rule<Scalar<double>>, kStates>(cuda, name, slots, settings, clip);
}

}  // namespace

void sgd_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const SgdStep& step, const GradientClip& clip) {
  if (step.momentum == 0) return step_all<rules::Sgd, 0>(cuda, "sgd_step", slots, step, clip);
  step_all<rules::Sgd, 1>(cuda, "sgd_step", slots, step, clip);
}

void adam_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const AdamStep& step, const GradientClip& clip) {
  if (step.beta1 == 0) return step_all<rules::Adam, 1>(cuda, "adam_step", slots, rules::AdamFactors(step), clip);
  step_all<rules::Adam, 2>(cuda, "adam_step", slots, rules::AdamFactors(step), clip);
}

void rmsprop_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const RmsPropStep& step, const GradientClip& clip) {
  if (step.momentum == 0) return step_all<rules::RmsProp, 1>(cuda, "rmsprop_step", slots, step, clip);
  step_all<rules::RmsProp, 2>(cuda, "rmsprop_step", slots, step, clip);
}

void lion_step(Cuda& cuda, const std::vector<OptimizerSlot>& slots, const LionStep& step, const GradientClip& clip) {
  step_all<rules::Lion, 1>(cuda, "lion_step", slots, step, clip);
}

void round_stochastically(Cuda& cuda, const Tensor& weights, const Tensor& working, const RandomStream& stream, int64_t first_element) {
  OptimizerSlot from{weights, weights, {}};
  from.working = working;
  from.stochastic = stream;
  from.first_element = first_element;
  const Slot<float> slot = slot_of<float>(from);
  constexpr int64_t kOfBlock = kThreads * Pack<float>::kCount;
  launch(cuda, "round_stochastically", {static_cast<unsigned>((slot.count + kOfBlock - 1) / kOfBlock), kThreads}, round_slot, slot);
}

}  // namespace sluice::kernels
