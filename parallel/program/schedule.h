#pragma once
#include <string>
#include <vector>

namespace sluice::parallel {

/// The compute actions of a schedule. B is the fused backward (I and W in one); schedules that split use I and W.
enum class Compute { forward, backward, input_gradient, weight_gradient };

struct ComputeAction {
  Compute kind;
  int stage;
  int micro_batch;
  bool operator==(const ComputeAction&) const = default;
};

/// A schedule as pure data: for each device the order of its compute actions in one step.
/// Backwards (B or W) of one stage are always in ascending micro-batch order, because gradients accumulate in that order
/// (promise 1 of the design: one answer whatever the schedule).
struct Schedule {
  std::string name;
  int micro_batches = 0;
  std::vector<int> device_of_stage;                 ///< by stage
  std::vector<std::vector<ComputeAction>> devices;  ///< by device

  int stage_count() const { return static_cast<int>(device_of_stage.size()); }
  int device_count() const { return static_cast<int>(devices.size()); }
  bool operator==(const Schedule&) const = default;
};

/// The same order with every stage cut into `segments[stage]` stages of its device: F runs through them, B, I and W back through them. A
/// device that recomputes then holds the recomputed activations of one segment at a time instead of a whole stage's.
/// Errors  UsageError unless there is one number >= 1 for each stage.
Schedule in_segments(const Schedule& schedule, const std::vector<int>& segments);

}  // namespace sluice::parallel
