#include "cli/foresee.h"

#include <algorithm>

#include "cli/build.h"
#include "core/byte_units.h"
#include "core/machine_limits.h"
#include "parallel/plan/advice.h"

namespace sluice::cli {

namespace {

void require_step(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, const Settings& settings,
                  const parallel::Prediction& prediction) {
  if (prediction.fits) return;
  const std::string advice = parallel::nearest_that_fits(graph, plan.devices, plan_options(graph, settings, optimizer));
  throw OutOfMemory("the plan does not fit: " + prediction.reason + (advice.empty() ? "" : "; " + advice));
}

void require_machine(const parallel::Plan& plan, const parallel::Prediction& step, const parallel::Prediction& validation,
                     const std::vector<int>& here) {
  if (plan.devices[0]->kind() != DeviceKind::cpu) return;
  int64_t needed = 0;
  for (const int i : here) needed += std::max(step.devices[i].peak_bytes, validation.devices[i].peak_bytes);
  const int64_t available = available_memory_bytes();
  require<OutOfMemory>(
      needed <= available, "the plan does not fit this machine: its CPU devices need ", needed, " bytes (", bytes_text(needed),
      ") together, and ", available, " (", bytes_text(available),
      ") are free; train a smaller model, set more pipeline.micro_batches or pipeline.remat = \"full\", or end other programs");
}

}  // namespace

void require_memory(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, const Settings& settings,
                    const parallel::Prediction& prediction, const std::vector<int>& here) {
  require_step(graph, plan, optimizer, settings, prediction);
  const auto validation = parallel::predict_evaluation(graph, plan, optimizer, settings.integer("train.batch"), is_image_model(settings));
  require<OutOfMemory>(validation.fits, "the validation does not fit: ", validation.reason,
                       "; set a smaller train.batch, more pipeline.micro_batches or a larger pipeline.memory");
  require_machine(plan, prediction, validation, here);
}

}  // namespace sluice::cli
