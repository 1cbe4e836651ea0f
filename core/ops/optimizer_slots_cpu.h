#pragma once
// What the steps of optimizers share on CPUs.
#include "core/ops/lanes.h"
#include "core/ops/optimizer_rules.h"

namespace sluice::kernels {

/// The dtypes that hold master weights.
template <class F>
void on_master(DType dtype, const F& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  f.template operator()<float>();
}

inline double gradient_factor(const GradientClip& clip) {
  return rules::gradient_factor(clip.sum_of_squares.defined() ? clip.sum_of_squares.data<double>() : nullptr, clip.largest_norm);
}

/// `begin` and `first_element` are multiples of kRoundedTogether.
inline void round_run(const float* from, bfloat16* to, const RandomStream& stream, int64_t first_element, int64_t begin, int64_t end) {
  for (int64_t first = begin; first < end; first += rules::kRoundedTogether) {
    const auto words = stream.words(static_cast<uint64_t>((first_element + first) / rules::kRoundedTogether), 0);
    const int count = static_cast<int>(std::min<int64_t>(rules::kRoundedTogether, end - first));
    for (int i = 0; i < count; ++i) to[first + i] = rules::round_stochastically(from[first + i], words, i);
  }
}

/// The working copy of elements that were just stepped and still lie in the cache.
inline void write_working(const OptimizerSlot& slot, int64_t begin, int64_t end) {
  if (!slot.working.defined()) return;
  const float* from = slot.parameter.data<float>();
  auto* to = slot.working.data<bfloat16>();
  if (slot.stochastic) return round_run(from, to, *slot.stochastic, slot.first_element, begin, end);
  for_lanes<float>(begin, end, [&](auto load, auto store) { store(to, load(from)); });
}

}  // namespace sluice::kernels
