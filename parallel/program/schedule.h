#pragma once
#include <cstdint>
#include <string>
#include <string_view>
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

/// At most so many runs of a stage over a micro-batch has a step: stages of a pipeline times micro-batches. Each is 2 actions on one device, 6
/// of a chain in 1f1b and 8 in zb-v, which took 0.5 to 0.7 KiB each to lower, prove, count and simulate (the peak of `sluice plan` with 64,000
/// micro-batches less that with 16,000, a run); so many runs took 4.5 GiB in 1f1b. Searched plans have 4096 micro-batches at most, and so this
/// leaves them 256 stages.
inline constexpr std::int64_t kMostStageRuns = std::int64_t{1} << 20;

/// Before memory is taken for them. `name`  what asks for them: "PlanOptions::micro_batches".
/// Errors  UsageError when stages times micro-batches are more than kMostStageRuns.
void require_few_enough(int micro_batches, int stages, std::string_view name);

/// The same order with every stage cut into `segments[stage]` stages of its device: F runs through them, B, I and W back through them. A
/// device that recomputes then holds the recomputed activations of one segment at a time instead of a whole stage's.
/// Errors  UsageError unless there is one number >= 1 for each stage.
Schedule in_segments(const Schedule& schedule, const std::vector<int>& segments);

}  // namespace sluice::parallel
