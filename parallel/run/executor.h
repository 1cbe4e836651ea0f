#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "parallel/program/program.h"
#include "parallel/run/stage.h"
#include "parallel/run/trace.h"
#include "parallel/run/transport.h"
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

/// Runs programs over local devices: one worker thread a CPU device; all meta devices in the caller's thread, on their clocks.
/// Threads  one caller.
/// Errors   the first failure of a device, after all devices stopped and the stages were reset; CommError when a wait times out, or
///          devices that only count wait for ever, saying what every device waits for and in what circle (hang_report). What failed_midway() says then.
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

  /// For tests: called on a device's thread before each of its actions, so that it can be delayed, or stopped until `failed` asks to stop.
  using BeforeAction = std::function<void(int device, const Action& action, const std::stop_token& failed)>;
  void set_before_action(BeforeAction hook) { before_action_ = std::move(hook); }

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  const std::vector<DevicePtr>& devices() const { return devices_; }
  /// Of all programs that it runs, as of training. Refers to the executor.
  Layout layout() const { return {topology_, partition_, device_of_stage_, rematerialize_, static_cast<int>(devices_.size()), true}; }

 private:
  class DeviceRun;
  using Runs = std::vector<std::unique_ptr<DeviceRun>>;
  void run_on_workers(Runs& runs, const Program& program, Transport& transport, std::stop_source& failed);
  void run_on_clocks(Runs& runs, const Program& program);
  std::string hang(const Runs& runs, const Program& program) const;
  RunResult collect(const Runs& runs);

  const Topology& topology_;
  const Partition partition_;
  const std::vector<int> device_of_stage_;
  const std::vector<bool> rematerialize_;
  const Dataflow flow_;
  std::vector<DevicePtr> devices_;
  std::vector<std::unique_ptr<Stage>> stages_;
  double timeout_seconds_;
  bool failed_midway_ = false;
  BeforeAction before_action_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::parallel
