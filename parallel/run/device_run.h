#pragma once
#include <atomic>
#include <chrono>

#include "parallel/run/executor.h"

namespace sluice::parallel {

/// One device's way through its list of actions.
/// Threads  run by one thread; `position()` is read by others for messages.
class Executor::DeviceRun {
 public:
  struct Shared {
    const Program& program;
    const RunContext& context;
    const StepContext& step;
    const Topology& topology;
    const std::vector<std::unique_ptr<Stage>>& stages;
    const std::vector<DevicePtr>& devices;
    Transport& transport;
    std::chrono::steady_clock::time_point began;
    const BeforeAction& before_action;
    std::stop_token failed;
  };
  DeviceRun(int index, DevicePtr device, const Shared& shared);

  /// Runs actions until the list ends (true) or a message does not come within `seconds` (false).
  bool advance(double seconds);
  bool finished() const { return next_ >= actions_->size(); }
  /// How many actions have ended; the device is in the next one.
  size_t position() const { return next_.load(std::memory_order_relaxed); }

  /// Whether the device is in an action that changes_weights(), or beyond it, and the gradient's norm lets such actions change them. On
  /// devices whose work is asynchronous an error may show long after the step was enqueued. Waits for the device.
  bool has_begun_to_change() const;

  const std::vector<TraceEvent>& events() const { return events_; }
  /// Of all gradients, before clipping; 0 in evaluation and on meta. Waits for the device.
  double gradient_norm() const;

 private:
  bool execute(const Action& action, double seconds);
  const char* place_of(const Transfer& transfer) const;
  void send(const Action& action);
  bool receive(const Action& action, double seconds);
  void norm_parts();
  void reduce_norm();
  void step();
  void note_bytes(Action& action) const;
  void read_spans();
  double now() const;
  bool counts_only() const { return device_->kind() == DeviceKind::meta; }
  Stage& stage(const Action& action) const { return *shared_.stages[action.stage]; }

  int index_;
  DevicePtr device_;
  Shared shared_;
  const std::vector<Action>* actions_;
  std::atomic<size_t> next_{0};
  std::vector<TraceEvent> events_;
  int64_t moved_bytes_ = 0;                       ///< by the action, if it is a transfer
  std::vector<std::pair<Moment, Moment>> spans_;  ///< of each event, on devices whose work is asynchronous
  Tensor norm_part_;                              ///< f64 [parameters of the model]: sums of squares, zero where others own
  std::vector<Tensor> other_parts_;               ///< on the reducing device, in the order of arrival
  Tensor norm_;                                   ///< f64 []: the sum of squares
};

}  // namespace sluice::parallel
