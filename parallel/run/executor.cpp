#include "parallel/run/executor.h"

#include <algorithm>
#include <exception>

#include "core/ops/concat.h"
#include "parallel/program/clock.h"
#include "parallel/run/device_links.h"
#include "parallel/run/device_run.h"
#include "parallel/run/hang_report.h"

namespace sluice::parallel {

namespace {

Dataflow training_flow(Layout layout) {
  const std::string fault = mismatch(layout);
  require(fault.empty(), "executor: needs a partition and a placement of its model, but ", fault);
  layout.training = true;
  return dataflow(layout);
}

}  // namespace

Executor::Executor(const layers::Graph& graph, const Layout& layout, std::vector<DevicePtr> devices, const StageOptions& options,
                   double timeout_seconds)
    : topology_(layout.topology),
      partition_(layout.partition),
      device_of_stage_(layout.device_of_stage),
      rematerialize_(layout.rematerialize),
      flow_(training_flow(layout)),
      devices_(std::move(devices)),
      timeout_seconds_(timeout_seconds) {
  require(!devices_.empty(), "executor: needs at least one device");
  for (const auto& device : devices_)
    require(device->kind() == devices_[0]->kind(), "executor: needs devices of one kind, got ", devices_[0]->name(), " and ",
            device->name());
  if (devices_[0]->kind() != DeviceKind::meta)
    for (size_t i = 0; i < devices_.size(); ++i) workers_.push_back(std::make_unique<Worker>());
  std::vector<layers::Tables> tables;
  for (const auto& device : devices_) tables.emplace_back(device, working_dtype(options.precision));
  for (int stage = 0; stage < partition_.stage_count(); ++stage) {
    const int device = device_of_stage_[stage];
    stages_.push_back(std::make_unique<Stage>(graph, topology_, flow_, partition_, stage, devices_.at(device), tables.at(device), options));
  }
}

Executor::~Executor() = default;

RunResult Executor::run(const Program& program, const RunContext& context, const StepContext& step) {
  require(program.partition.sizes == partition_.sizes && program.device_of_stage == device_of_stage_ &&
              program.device_count() == static_cast<int>(devices_.size()) && program.rematerialize == rematerialize_,
          "executor: needs a program of the partition, placement and rematerialization that it was made for; lower one from the same plan");
  auto transport = make_local_transport(static_cast<int>(devices_.size()));
  std::stop_source failed;
  Clock clock(static_cast<int>(devices_.size()), links_of(devices_));
  const DeviceRun::Shared shared{program,
                                 context,
                                 step,
                                 topology_,
                                 stages_,
                                 devices_,
                                 *transport,
                                 std::chrono::steady_clock::now(),
                                 before_action_,
                                 failed.get_token(),
                                 workers_.empty() ? &clock : nullptr,
                                 repeats(program, context)};
  Runs runs;
  Cost before;
  failed_midway_ = false;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i]->kind() == DeviceKind::meta) devices_[i]->set_clock(0);
    before += devices_[i]->counted();
    runs.push_back(std::make_unique<DeviceRun>(static_cast<int>(i), devices_[i], shared));
  }
  RunResult result;
  try {
    workers_.empty() ? run_on_clock(runs, program) : run_on_workers(runs, program, *transport, failed);
    result = collect(runs);
  } catch (...) {
    failed_midway_ = std::ranges::any_of(runs, [](const auto& run) { return run->has_begun_to_change(); });
    for (auto& stage : stages_) stage->reset();
    throw;
  }
  result.flops = -before.flops;
  for (const auto& device : devices_) result.flops += device->counted().flops;
  if (workers_.empty())
    result.trace.seconds = clock.seconds();
  else
    result.trace.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - shared.began).count();
  for (auto& stage : stages_) stage->reset();
  return result;
}

/// Devices that only count, without budgets that a micro-batch could pass, and stages that keep nothing of a micro-batch until the end.
bool Executor::repeats(const Program& program, const RunContext& context) const {
  return workers_.empty() && repeats_micro_batches(program, context.batch->samples) &&
         std::ranges::none_of(flow_.stages, &StageFlow::commits_statistics) &&
         std::ranges::all_of(devices_, [](const auto& device) { return device->budget_bytes() == kUnlimited; });
}

/// Every device on its own thread. The first failure closes the transport, which stops the others.
void Executor::run_on_workers(Runs& runs, const Program& program, Transport& transport, std::stop_source& failed) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto fail = [&](const std::string& reason) {
    {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    failed.request_stop();
    transport.close("stopped because another device failed: " + reason);
  };
  for (size_t i = 0; i < runs.size(); ++i)
    workers_[i]->submit([&, i] {
      try {
        if (runs[i]->advance(timeout_seconds_)) return;
        throw CommError(join("pipeline: no message within ", timeout_seconds_, " s (pipeline.timeout)", hang(runs, program)));
      } catch (const std::exception& error) {
        fail(error.what());
      } catch (...) {
        fail("unknown error");
      }
    });
  for (auto& worker : workers_) worker->wait();
  if (failure) std::rethrow_exception(failure);
}

/// Meta devices take turns in one thread; a device waits when the message is not sent yet.
void Executor::run_on_clock(Runs& runs, const Program& program) {
  const auto done = [](const auto& run) { return run->finished(); };
  const auto progress = [&] {
    size_t sum = 0;
    for (const auto& run : runs) sum += run->position();
    return sum;
  };
  while (!std::ranges::all_of(runs, done)) {
    const size_t before = progress();
    for (auto& run : runs)
      if (!run->finished()) run->advance(0);
    if (progress() == before) throw CommError("pipeline: the devices wait for ever" + hang(runs, program));
  }
}

std::string Executor::hang(const Runs& runs, const Program& program) const {
  std::vector<std::string> names;
  std::vector<size_t> finished;
  for (const auto& device : devices_) names.push_back(device->name());
  for (const auto& run : runs) finished.push_back(run->position());
  return hang_report(program, topology_, names, finished);
}

RunResult Executor::collect(const Runs& runs) {
  RunResult result;
  for (const auto& run : runs) result.trace.events.insert(result.trace.events.end(), run->events().begin(), run->events().end());
  result.gradient_norm = runs[0]->gradient_norm();
  for (const auto& device : devices_) result.trace.device_names.push_back(device->name());
  if (workers_.empty()) return result;
  for (const auto& stage : stages_)
    for (const auto& [micro_batch, loss] : stage->losses()) result.loss += loss.item();
  std::vector<Tensor> outputs;
  for (const auto& stage : stages_)
    for (const auto& [micro_batch, output] : stage->outputs()) outputs.push_back(output.to(default_device()));
  if (!outputs.empty()) result.output = concat(outputs, 0);
  return result;
}

}  // namespace sluice::parallel
