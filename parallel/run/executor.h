#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "parallel/group/group.h"
#include "parallel/program/program.h"
#include "parallel/run/device_ranks.h"
#include "parallel/run/gpu_link.h"
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
  Optimizer::Update update;      ///< the norm of its clip is filled in on each device
  bool changes_nothing = false;  ///< a rehearsal: the gradient's norm counts as one that is not finite
};

struct RunResult {
  double loss = 0;             ///< summed over the micro-batches in their order; 0 on meta
  std::vector<double> losses;  ///< of the micro-batches whose loss is computed here, in their order
  double gradient_norm = 0;    ///< 0 in evaluation and on meta; when it is not finite no weight has changed
  double flops = 0;
  std::map<int, Tensor> outputs;    ///< by output node, all samples in order, on the host; when the run keeps them
  double loss_weight = 0;           ///< of the mini-batch
  std::vector<int64_t> peak_bytes;  ///< by device, since it was last reset; those of the job
  double bubble = 0;                ///< of the trace
  Wish wish;                        ///< of all ranks
  int64_t bytes_between_ranks = 0;  ///< of tensors, as they came
  Trace trace;                      ///< of the devices of this rank; on the root of all
};

/// Runs programs over the devices of this process, each with a worker thread, or those of all ranks of a job, each rank its own; all meta
/// devices in the caller's thread, on one Clock. Only the stages that are here are made. Ranks call everything together, with the same
/// programs and mini-batches, and get the same results.
/// GPUs of several ranks are connected by NCCL: before a run, those whose channels its program is the first to use.
/// Threads  one caller.
/// Errors   the first failure of a device, naming action and device, after all devices stopped and the stages were reset. CommError when
///          a wait or an action takes longer than the timeout, or devices that only count wait for ever, saying what every device waits
///          for and in what circle (hang_report). HangError when a device does not stop then: see is_abandoned(). What is no Error, such
///          as std::bad_alloc, becomes one that holds it nested. A run that fails on one rank aborts the group, so that those of the others
///          fail with CommError. HangError, too, when a rank waits in NCCL for others that have failed, or for longer than the timeout.
class Executor {
 public:
  /// Makes the dataflow of `layout` and its stages on `devices`, which are of one kind: all those of the job, of which a rank uses its own (devices_of_job).
  /// Graph and topology live as long as the executor. `group`: null for one process.
  /// Errors  UsageError for devices that cannot serve several ranks; on all ranks alike when one has no usable NCCL.
  Executor(const layers::Graph& graph, const Layout& layout, std::vector<DevicePtr> devices, const StageOptions& options,
           double timeout_seconds, std::shared_ptr<Group> group = nullptr);
  ~Executor();

  /// Errors  UsageError for a program of another layout.
  RunResult run(const Program& program, const RunContext& context, const StepContext& step);

  /// Whether the last run failed when a device had begun to change its weights: then those of all devices may be of two steps.
  bool failed_midway() const { return failed_midway_; }

  /// Whether a device's thread is still inside an action of a run that has thrown HangError. From then on run() throws it again, and
  /// neither the executor nor anything that it and that run were made of may be destroyed or written to while the process lives.
  bool is_abandoned() const { return !abandoned_.empty(); }

  double timeout_seconds() const { return timeout_seconds_; }
  /// Of the next runs.
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  /// For tests: called on a device's thread before each of its actions, so that it can be delayed, or stopped until `failed` asks to stop.
  using BeforeAction = std::function<void(int device, const Action& action, const std::stop_token& failed)>;
  void set_before_action(BeforeAction hook) { before_action_ = std::move(hook); }

  /// Those that are here, ascending.
  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  /// Of the whole job.
  const std::vector<DevicePtr>& devices() const { return devices_; }
  const DeviceRanks& ranks() const { return ranks_; }
  /// Of all programs that it runs, as of training. Refers to the executor.
  Layout layout() const {
    return {topology_, partition_, device_of_stage_, rematerialize_, static_cast<int>(devices_.size()), true, replication_};
  }

 private:
  class DeviceRun;
  struct Attempt;
  using Runs = std::vector<std::unique_ptr<DeviceRun>>;
  bool connects_gpus() const { return group_ && devices_[0]->kind() == DeviceKind::cuda; }
  void connect(const Program& program);
  bool has_connected();
  std::shared_ptr<Attempt> begin(const Program& program, const RunContext& context, const StepContext& step);
  void run_on_workers(const std::shared_ptr<Attempt>& attempt, const Program& program);
  bool comes_back(size_t index, Attempt& attempt, const Program& program);
  void give_up(const std::vector<size_t>& lost, Attempt& attempt, const Program& program);
  void run_on_clock(Attempt& attempt, const Program& program);
  bool repeats(const Program& program, const RunContext& context) const;
  std::vector<std::shared_ptr<const ValueTypes::List>> types_of(const RunContext& context);
  std::string hang(const Attempt& attempt, const Program& program) const;
  [[noreturn]] void rethrow_with_positions(const Attempt& attempt, const Program& program) const;
  std::vector<std::optional<size_t>> positions(const Runs& runs, uint32_t step) const;
  std::string status() const;
  RunResult collect(const Attempt& attempt);
  std::unique_ptr<Transport> make_transport(Clock* clock) const;
  void make_stages(const layers::Graph& graph, const StageOptions& options);

  const Topology& topology_;
  const Partition partition_;
  const std::vector<int> device_of_stage_;
  const std::vector<bool> rematerialize_;
  const Replication replication_;
  const Dataflow flow_;
  const NormLayout norm_layout_;
  const std::shared_ptr<Group> group_;  ///< null for one process
  const DeviceRanks ranks_;
  double clock_offset_ = 0;  ///< to the root's
  mutable std::mutex current_mutex_;
  std::weak_ptr<Attempt> current_;  ///< guarded by current_mutex_: for status()
  std::vector<DevicePtr> devices_;
  std::vector<int> here_;  ///< the devices of this rank
  std::vector<std::unique_ptr<Stage>> stages_;
  std::map<int, Stage*> stage_at_;  ///< the same, by number
  GpuLinks links_;
  std::set<ChannelEnds> connected_;  ///< those of all ranks
  ValueTypes value_types_;
  double timeout_seconds_;
  uint8_t run_number_ = 0;  ///< of the last run, from 1; for ranks to see that they are in the same one
  bool failed_midway_ = false;
  std::string abandoned_;  ///< why; empty when no thread is
  BeforeAction before_action_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::parallel
