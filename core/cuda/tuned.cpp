#include "core/cuda/tuned.h"

#include "core/cuda/choices.h"

namespace sluice {

TuningLimits limits_of(Tuning tuning) {
  if (tuning == Tuning::off) return {};
  return tuning == Tuning::quick ? TuningLimits{10, 8} : TuningLimits{3600, 32};
}

TuningScope::TuningScope(const TuningLimits& limits) { Choices::of_process().begin_trials(limits); }
TuningScope::~TuningScope() { Choices::of_process().end_trials(); }

GpuChoices gpu_choices() { return Choices::of_process().all(); }
void adopt(const GpuChoices& choices) { Choices::of_process().adopt(choices); }

}  // namespace sluice
