#pragma once
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
/// Backwards of one stage are always in ascending micro-batch order, because gradients accumulate in that order
/// (promise 1 of the design: one answer whatever the schedule).
struct Schedule {
  std::string name;
  int micro_batches = 0;
  std::vector<int> device_of_stage;                 ///< by stage
  std::vector<std::vector<ComputeAction>> devices;  ///< by device

  int stage_count() const { return static_cast<int>(device_of_stage.size()); }
  int device_count() const { return static_cast<int>(devices.size()); }
};

/// The names that `make_schedule` knows, for help texts and errors.
const std::vector<std::string>& schedule_names();

/// Builds a named schedule over `stages` stages, stage s on device s, for any micro_batches >= 1.
///   gpipe         all forwards, then all backwards. Bubble (S-1)/(M+S-1); M micro-batches alive on every device. arXiv 1811.06965.
///   1f1b          min(S-1-s, M) forwards, then one forward one backward. Same bubble; min(S-s, M) alive. arXiv 1806.03377.
///   forward-only  the forwards alone: evaluation and generation.
/// Errors  UsageError for an unknown name (the nearest is named), stages < 1 or micro_batches < 1.
Schedule make_schedule(std::string_view name, int stages, int micro_batches);

}  // namespace sluice::parallel
