#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "parallel/program/program.h"
#include "parallel/run/run_errors.h"
#include "parallel/run/stage.h"
#include "parallel/run/trace.h"
#include "parallel/run/transport.h"
#include "parallel/run/value_types.h"
#include "parallel/run/worker.h"

namespace sluice::parallel {

/// Whether the action changes weights, optimizer states, running statistics or their averages.
inline bool changes_weights(const Action& action) {
  return action.kind == ActionKind::step || action.kind == ActionKind::commit_statistics;
}

/// What the actions at the end of a step need.
struct StepContext {
  const Optimizer* optimizer = nullptr;
  Optimizer::Update update;  ///< the norm of its clip is filled in on each device
};

struct RunResult {
  double loss = 0;           ///< summed over the micro-batches in their order; 0 on meta
  double gradient_norm = 0;  ///< 0 in evaluation and on meta; when it is not finite no weight has changed
  double flops = 0;
  Tensor output;  ///< of the graph's output node, all samples in order, on the host; when the run keeps it
  Trace trace;
};

/// Runs programs over local devices: one worker thread a CPU device; all meta devices in the caller's thread, on one Clock.
/// Threads  one caller.
/// Errors   the first failure of a device, naming action and device, after all devices stopped and the stages were reset. CommError when
///          a wait or an action takes longer than the timeout, or devices that only count wait for ever, saying what every device waits
///          for and in what circle (hang_report). HangError when a device does not stop then: see is_abandoned(). What is no Error, such
///          as std::bad_alloc, becomes one that holds it nested.
class Executor {
 public:
  /// Makes the dataflow of `layout` and its stages on `devices`, which are of one kind. Graph and topology live as long as the executor.
  Executor(const layers::Graph& graph, const Layout& layout, std::vector<DevicePtr> devices, const StageOptions& options,
           double timeout_seconds);
  ~Executor();

  /// Errors  UsageError for a program of another layout.
  RunResult run(const Program& program, const RunContext& context, const StepContext& step);

  /// Whether the last run failed when a device had begun to change its weights: then those of all devices may be of two steps.
  bool failed_midway() const { return failed_midway_; }

  /// Whether a device's thread is still inside an action of a run that has thrown HangError. From then on run() throws it again, and
  /// neither the executor nor anything that it and that run were made of may be destroyed or written to while the process lives.
  bool is_abandoned() const { return !abandoned_.empty(); }

  /// For tests: of the next runs.
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  /// For tests: called on a device's thread before each of its actions, so that it can be delayed, or stopped until `failed` asks to stop.
  using BeforeAction = std::function<void(int device, const Action& action, const std::stop_token& failed)>;
  void set_before_action(BeforeAction hook) { before_action_ = std::move(hook); }

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  const std::vector<DevicePtr>& devices() const { return devices_; }
  /// Of all programs that it runs, as of training. Refers to the executor.
  Layout layout() const { return {topology_, partition_, device_of_stage_, rematerialize_, static_cast<int>(devices_.size()), true}; }

 private:
  class DeviceRun;
  struct Attempt;
  using Runs = std::vector<std::unique_ptr<DeviceRun>>;
  std::shared_ptr<Attempt> begin(const Program& program, const RunContext& context, const StepContext& step);
  void run_on_workers(const std::shared_ptr<Attempt>& attempt, const Program& program);
  bool comes_back(size_t device, Attempt& attempt, const Program& program);
  void give_up(const std::vector<size_t>& devices, Attempt& attempt, const Program& program);
  void run_on_clock(Runs& runs, const Program& program);
  bool repeats(const Program& program, const RunContext& context) const;
  std::vector<std::shared_ptr<const ValueTypes::List>> types_of(const RunContext& context);
  std::string hang(const Runs& runs, const Program& program) const;
  RunResult collect(const Runs& runs);

  const Topology& topology_;
  const Partition partition_;
  const std::vector<int> device_of_stage_;
  const std::vector<bool> rematerialize_;
  const Dataflow flow_;
  std::vector<DevicePtr> devices_;
  std::vector<std::unique_ptr<Stage>> stages_;
  ValueTypes value_types_;
  double timeout_seconds_;
  bool failed_midway_ = false;
  std::string abandoned_;  ///< why; empty when no thread is
  BeforeAction before_action_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::parallel
