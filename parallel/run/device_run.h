#pragma once
#include <atomic>
#include <chrono>
#include <map>
#include <optional>

#include "parallel/program/clock.h"
#include "parallel/program/link_sharing.h"
#include "parallel/run/executor.h"
#include "parallel/run/repetition.h"

namespace sluice::parallel {

/// One device's way through its list of actions.
/// Threads  run by one thread; `position()` and `entered()` are read by others.
class Executor::DeviceRun {
  using SteadyClock = std::chrono::steady_clock;

 public:
  struct Shared {
    const Program& program;
    const RunContext& context;
    const StepContext& step;
    const Topology& topology;
    const std::vector<std::unique_ptr<Stage>>& stages;  ///< that are here
    const std::map<int, Stage*>& stage_at;              ///< the same, by number
    const std::vector<DevicePtr>& devices;
    const NormLayout& norm_layout;
    const DeviceRanks& ranks;
    Transport& transport;
    SteadyClock::time_point began;
    const BeforeAction& before_action;
    std::stop_token failed;
    const std::vector<std::shared_ptr<const ValueTypes::List>>& value_types;  ///< by micro-batch
    Clock* clock;                                                             ///< of devices that only count; else null
    LinkSharing* sharing;                                                     ///< of the clock; else null
    bool repeats;  ///< such devices run two micro-batches and repeat the second one for the others
  };
  DeviceRun(int index, DevicePtr device, const Shared& shared);

  /// Runs actions until the list ends (true) or a transfer does not end within `seconds` (false).
  /// Errors  of an action, with its name and device; CommError when the run has failed elsewhere.
  bool advance(double seconds);
  bool finished() const { return next_ >= actions_->size(); }
  /// How many actions have ended; the device is in the next one.
  size_t position() const { return next_.load(std::memory_order_relaxed); }
  /// When the device came to the action that it is in, or was in last.
  SteadyClock::time_point entered() const { return entered_.load(std::memory_order_relaxed); }

  /// Whether the device is in an action that changes_weights(), or beyond it, and the gradient's norm lets such actions change them. On
  /// devices whose work is asynchronous an error may show long after the step was enqueued. Waits for the device.
  bool has_begun_to_change() const;

  const std::vector<TraceEvent>& events() const { return events_; }
  /// What the device computed for the host, once it has finished.
  struct Results {
    double gradient_norm = 0;      ///< of all gradients, before clipping; 0 in evaluation and on meta
    std::map<int, double> losses;  ///< by micro-batch, of those whose loss is computed here
  };
  const Results& results() const { return results_; }

 private:
  bool run_action(size_t at, double seconds);
  /// False when a transfer does not end within `seconds`.
  bool run(const Action& action, double seconds);
  void end(const Action& action);
  void note_bytes(Action& action) const;
  void restore_peak();
  bool execute(const Action& action, double seconds);
  void require_wanted() const;
  [[noreturn]] void rethrow_from(const Action& action) const;
  /// On a device that only counts: takes what the second micro-batch took, and hands on messages without tensors.
  bool repeat(const Action& action, double seconds);
  bool repeat_transfer(const Action& action, const Repetition::Taken& taken, double seconds);
  const char* place_of(const Transfer& transfer) const;
  bool is_local(const Transfer& transfer) const;
  ChannelEnds ends(const Transfer& transfer) const { return {shared_.program.sender(transfer), shared_.program.receiver(transfer)}; }
  std::optional<layers::ValueType> expected(const Action& action) const;
  Tensor outgoing(const Action& action) const;
  int sharing(const Transfer& transfer) const { return shared_.sharing ? shared_.sharing->of(transfer) : 1; }
  When when() const;
  void wait_for(const When& when) const;
  Tensor make_room(const Action& action) const;
  void post(const Action& action);
  void send(const Action& action);
  bool receive(const Action& action, double seconds);
  bool finish_send(const Action& action, double seconds);
  void norm_parts();
  void reduce_norm();
  void step();
  void read_results();
  void read_spans();
  double now() const;
  /// Lets the clock go on by what a device that only counts has counted since.
  void take_time();
  bool is_repeated(const Action& action) const { return repetition_ && repetition_->is_repeated(action); }
  bool counts_only() const { return shared_.clock != nullptr; }
  Stage& stage(const Action& action) const { return *shared_.stage_at.at(action.stage); }

  int index_;
  DevicePtr device_;
  Shared shared_;
  const std::vector<Action>* actions_;
  std::optional<Repetition> repetition_;
  double computed_ = 0;     ///< seconds of the action, on a device that only counts
  int64_t wire_bytes_ = 0;  ///< of the action, if it is a Send or a Recv
  int64_t peak_bytes_ = 0;  ///< until the action, on a device that only counts: while it runs the device's own peak is that of the action
  std::atomic<size_t> next_{0};
  std::atomic<SteadyClock::time_point> entered_;
  std::vector<TraceEvent> events_;
  std::vector<std::pair<Event, Event>> spans_;  ///< of each event, on devices whose work is asynchronous
  std::map<MessageKey, Tensor> handed_over_;    ///< between stages of this device, from Send to Recv
  Tensor norm_part_;                            ///< f64, as NormLayout has it
  std::vector<Tensor> other_parts_;             ///< on the reducing device, in the order of arrival
  Tensor norm_;                                 ///< f64 []: the sum of squares
  Results results_;
};

}  // namespace sluice::parallel
