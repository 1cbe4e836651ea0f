#pragma once
// What the steps of optimizers share on the GPU: their parameters, the clip of gradients, and working copies.
#include "core/ops/optimizer_rules.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

template <class T>
struct Slot {
  T* parameter;
  const T* gradient;
  T* states[2];
  bfloat16* working;  ///< null: none
  int64_t count;
  unsigned first_block;
  bool decays, aligned, stochastic;
  RandomStream stream;    ///< where stochastic
  int64_t first_element;  ///< its number in the stream
};

/// What scales the gradients of a step.
struct Clip {
  const double* sum_of_squares;  ///< null: gradients are taken as they are
  double largest_norm;

  explicit Clip(const GradientClip& clip)
      : sum_of_squares(clip.sum_of_squares.defined() ? clip.sum_of_squares.data<double>() : nullptr), largest_norm(clip.largest_norm) {}

  /// For all threads of the block; NaN: nothing may be written.
  __device__ double factor() const {
    __shared__ double of_block;
    if (threadIdx.x == 0 && threadIdx.y == 0) of_block = rules::gradient_factor(sum_of_squares, largest_norm);
    __syncthreads();
    return of_block;
  }
};

__device__ inline void write_working(const Slot<float>& slot, int64_t first, const Pack<float>& values) {
  constexpr int kWidth = Pack<float>::kCount;
  Run<kWidth, bfloat16> rounded;
  if (slot.stochastic) {
    static_assert(rules::kRoundedTogether == 2 * kWidth);
    const auto words = slot.stream.words(static_cast<uint64_t>((slot.first_element + first) / rules::kRoundedTogether), 0);
    const bool is_upper = first % rules::kRoundedTogether != 0;  // this pack takes the upper two words of the block
    const std::array<uint32_t, 4> own{is_upper ? words[2] : words[0], is_upper ? words[3] : words[1]};
    for (int i = 0; i < kWidth; ++i) rounded.at[i] = rules::round_stochastically(values.at[i], own, i);
  } else {
    for (int i = 0; i < kWidth; ++i) rounded.at[i] = bfloat16(values.at[i]);
  }
  if (slot.aligned && first + kWidth <= slot.count) {
    store_run(slot.working + first, rounded);
  } else {
    for (int i = 0; i < kWidth; ++i)
      if (first + i < slot.count) slot.working[first + i] = rounded.at[i];
  }
}

template <class T>
Slot<T> slot_of(const OptimizerSlot& from) {
  Slot<T> slot{from.parameter.data<T>(),
               from.gradient.data<T>(),
               {},
               from.working.defined() ? from.working.data<bfloat16>() : nullptr,
               from.parameter.elements(),
               0,
               from.decay,
               true,
               from.stochastic.has_value(),
               from.stochastic.value_or(RandomStream{}),
               from.first_element};
  for (size_t k = 0; k < from.states.size(); ++k) slot.states[k] = from.states[k].data<T>();
  slot.aligned = packs_fit<T>(0, slot.parameter, slot.gradient, slot.states[0], slot.states[1], slot.working);
  return slot;
}

}  // namespace sluice::kernels
