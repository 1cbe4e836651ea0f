#include "bench/ladder/naive.h"
#include "bench/ladder/thread_each.h"
#include "core/cuda/kernel.h"
#include "core/ops/optimizer_rules.h"

namespace sluice::ladder {

namespace {

/// A thread an element, of one parameter at a time. `working` may be null.
template <class T>
__global__ void adam_of_element(T* parameters, const T* gradients, T* m, T* v, bfloat16* working, rules::Adam<T> rule, int64_t count) {
  const int64_t i = kernels::grid_index();
  if (i >= count) return;
  rule.apply(parameters[i], m[i], v[i], gradients[i]);
  if (working != nullptr) working[i] = bfloat16(static_cast<float>(parameters[i]));
}

}  // namespace

void adam_step(Cuda& cuda, const OptimizerSlot& slot, const AdamStep& step) {
  const int64_t count = slot.parameter.elements();
  const auto run = [&]<class T>() {
    launch(cuda, "naive adam", thread_each(count), adam_of_element<T>, slot.parameter.data<T>(), slot.gradient.data<T>(),
           slot.states[0].data<T>(), slot.states[1].data<T>(), slot.working.defined() ? slot.working.data<bfloat16>() : nullptr,
           rules::Adam<T>(rules::AdamFactors(step), 1, slot.decay), count);
  };
  if (slot.parameter.dtype() == DType::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
}

}  // namespace sluice::ladder
