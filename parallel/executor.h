#pragma once
#include <memory>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "parallel/program.h"
#include "parallel/stage.h"
#include "parallel/trace.h"
#include "parallel/transport.h"
#include "parallel/worker.h"

namespace sluice::parallel {

/// What the actions at the end of a step need.
struct StepContext {
  const Optimizer* optimizer = nullptr;
  Optimizer::Update update;  ///< the norm of its clip is filled in on each device
};

struct RunResult {
  double loss = 0;           ///< summed over the micro-batches in their order; 0 on meta
  double gradient_norm = 0;  ///< 0 in evaluation and on meta
  double flops = 0;
  Tensor output;  ///< of the graph's output node, all samples in order, on the host; when the run keeps it
  Trace trace;
};

/// Runs programs over local devices: one worker thread a CPU device; all meta devices in the caller's thread, on their clocks.
/// Threads  one caller.
/// Errors   the first failure of a device, after all devices stopped and the stages were reset; CommError when a wait times out, saying
///          what every device was doing; Error when the gradient's norm is not finite, and then no weight has changed.
class Executor {
 public:
  /// `stages[s]` runs on `devices[device_of_stage[s]]`; all devices are of one kind.
  Executor(std::vector<DevicePtr> devices, std::vector<std::unique_ptr<Stage>> stages, const Topology& topology, double timeout_seconds);
  ~Executor();

  RunResult run(const Program& program, const RunContext& context, const StepContext& step);

  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }
  const std::vector<DevicePtr>& devices() const { return devices_; }

 private:
  class DeviceRun;
  void run_on_workers(std::vector<std::unique_ptr<DeviceRun>>& runs, Transport& transport);
  void run_on_clocks(std::vector<std::unique_ptr<DeviceRun>>& runs);
  RunResult collect(const std::vector<std::unique_ptr<DeviceRun>>& runs);

  std::vector<DevicePtr> devices_;
  std::vector<std::unique_ptr<Stage>> stages_;
  const Topology& topology_;
  double timeout_seconds_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace sluice::parallel
