#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "parallel/plan/options.h"
#include "parallel/plan/predict.h"

namespace sluice::parallel {

/// A way of sharing a training among devices, and what a step of it takes.
struct ComparedLayout {
  std::string_view name;  ///< "pipeline", "data", "sharded" or "mixed"
  std::string refusal{};  ///< why there is no such plan; empty when there is one, and then:
  Plan plan{};
  Prediction prediction{};

  int64_t sent_bytes() const;       ///< a step, all devices together
  int64_t most_sent_bytes() const;  ///< of the device that sends most
  int64_t peak_bytes() const;       ///< of the device that holds most
};

/// The same training as one pipeline over all devices; with the whole model on each, every one running the whole optimizer; the same with
/// the optimizer's states in shards; and as the fastest of several replicas of several devices each.
/// What `options` leave open is chosen for each. `speeds`  as of `predict`, by device.
/// Errors  UsageError when none of them can be planned.
std::vector<ComparedLayout> compare_layouts(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options,
                                            const DeviceSpeeds& speeds);

}  // namespace sluice::parallel
