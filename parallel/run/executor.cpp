#include "parallel/run/executor.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>

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
      value_types_(graph, options.precision),
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

/// One run. The devices' threads keep it alive, so that one which never comes back has it for ever.
struct Executor::Attempt {
  using SteadyClock = std::chrono::steady_clock;
  using Types = std::vector<std::shared_ptr<const ValueTypes::List>>;  // by micro-batch

  Attempt(const RunContext& run, const StepContext& what, BeforeAction hook, const std::vector<DevicePtr>& devices, Types types)
      : batch(*run.batch),
        context(run),
        step(what),
        before_action(std::move(hook)),
        value_types(std::move(types)),
        clock(clock_of(devices)),
        transport(make_local_transport(static_cast<int>(devices.size()), clock ? &*clock : nullptr)) {
    context.batch = &batch;
  }

  static std::optional<Clock> clock_of(const std::vector<DevicePtr>& devices) {
    if (devices[0]->kind() != DeviceKind::meta) return std::nullopt;
    return Clock(static_cast<int>(devices.size()), links_of(devices));
  }

  /// Only the first failure counts; it stops all devices.
  void fail(std::exception_ptr error, const std::string& reason) {
    {
      std::lock_guard lock(mutex);
      if (failure) return;
      failure = std::move(error);
      failed_at = SteadyClock::now();
    }
    failed.request_stop();
    transport->close("stopped because another device failed: " + reason);
  }
  /// Null while nothing has failed.
  std::exception_ptr first_failure() {
    std::lock_guard lock(mutex);
    return failure;
  }
  std::optional<SteadyClock::time_point> when_failed() {
    std::lock_guard lock(mutex);
    return failure ? std::optional(failed_at) : std::nullopt;
  }

  const Batch batch;
  RunContext context;
  const StepContext step;
  const BeforeAction before_action;
  const Types value_types;
  std::optional<Clock> clock;  ///< of devices that only count
  const std::unique_ptr<Transport> transport;
  const SteadyClock::time_point began = SteadyClock::now();
  std::stop_source failed;
  Runs runs;

  std::mutex mutex;  ///< guards the next two
  std::exception_ptr failure;
  SteadyClock::time_point failed_at;
};

std::shared_ptr<Executor::Attempt> Executor::begin(const Program& program, const RunContext& context, const StepContext& step) {
  auto attempt = std::make_shared<Attempt>(context, step, before_action_, devices_, types_of(context));
  const DeviceRun::Shared shared{program,
                                 attempt->context,
                                 attempt->step,
                                 topology_,
                                 stages_,
                                 devices_,
                                 *attempt->transport,
                                 attempt->began,
                                 attempt->before_action,
                                 attempt->failed.get_token(),
                                 attempt->value_types,
                                 attempt->clock ? &*attempt->clock : nullptr,
                                 repeats(program, context)};
  for (size_t i = 0; i < devices_.size(); ++i)
    attempt->runs.push_back(std::make_unique<DeviceRun>(static_cast<int>(i), devices_[i], shared));
  return attempt;
}

/// By micro-batch; of no use on one device.
std::vector<std::shared_ptr<const ValueTypes::List>> Executor::types_of(const RunContext& context) {
  std::vector<std::shared_ptr<const ValueTypes::List>> types;
  for (int m = 0; devices_.size() > 1 && m < context.micro_batches(); ++m)
    types.push_back(value_types_.of(*context.batch, context.first_sample[m], context.first_sample[m + 1] - context.first_sample[m]));
  return types;
}

RunResult Executor::run(const Program& program, const RunContext& context, const StepContext& step) {
  require<HangError>(!is_abandoned(), abandoned_);
  require(program.partition.sizes == partition_.sizes && program.device_of_stage == device_of_stage_ &&
              program.device_count() == static_cast<int>(devices_.size()) && program.rematerialize == rematerialize_,
          "executor: needs a program of the partition, placement and rematerialization that it was made for; lower one from the same plan");
  Cost before;
  failed_midway_ = false;
  for (const auto& device : devices_) {
    if (device->kind() == DeviceKind::meta) device->set_clock(0);
    before += device->counted();
  }
  const auto attempt = begin(program, context, step);
  RunResult result;
  try {
    workers_.empty() ? run_on_clock(attempt->runs, program) : run_on_workers(attempt, program);
    result = collect(attempt->runs);
  } catch (const HangError&) {  // what the stages hold is in use
    throw;
  } catch (...) {
    failed_midway_ = std::ranges::any_of(attempt->runs, [](const auto& run) { return run->has_begun_to_change(); });
    for (auto& stage : stages_) stage->reset();
    throw;
  }
  result.flops = -before.flops;
  for (const auto& device : devices_) result.flops += device->counted().flops;
  result.trace.seconds =
      attempt->clock ? attempt->clock->seconds() : std::chrono::duration<double>(std::chrono::steady_clock::now() - attempt->began).count();
  for (auto& stage : stages_) stage->reset();
  return result;
}

namespace {

/// In which a device that was told to stop does so, on a busy machine too.
constexpr std::chrono::seconds kGrace(5);
/// In which a device reports its own wait, at most, before it is taken to be in an action that does not end.
constexpr std::chrono::seconds kReport(1);

std::chrono::steady_clock::duration duration_of(double seconds) {
  constexpr double kLongest = 1e9;
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(std::min(seconds, kLongest)));
}

}  // namespace

/// Devices that only count, without budgets that a micro-batch could pass, and stages that keep nothing of a micro-batch until the end.
bool Executor::repeats(const Program& program, const RunContext& context) const {
  return workers_.empty() && repeats_micro_batches(program, context.batch->samples) &&
         std::ranges::none_of(flow_.stages, &StageFlow::commits_statistics) &&
         std::ranges::all_of(devices_, [](const auto& device) { return device->budget_bytes() == kUnlimited; });
}

/// Every device on its own thread. The first failure closes the transport, which stops the others.
void Executor::run_on_workers(const std::shared_ptr<Attempt>& attempt, const Program& program) {
  for (size_t i = 0; i < workers_.size(); ++i)
    workers_[i]->submit([this, attempt, i, &program] {
      try {
        if (attempt->runs[i]->advance(timeout_seconds_)) return;
        throw CommError(join("pipeline: no message within ", timeout_seconds_, " s (pipeline.timeout)", hang(attempt->runs, program)));
      } catch (const std::exception& error) {
        attempt->fail(std::current_exception(), error.what());
      }
    });
  std::vector<size_t> lost;
  for (size_t i = 0; i < workers_.size(); ++i)
    if (!comes_back(i, *attempt, program)) lost.push_back(i);
  if (!lost.empty()) give_up(lost, *attempt, program);
  if (const auto failure = attempt->first_failure()) std::rethrow_exception(failure);
}

/// Waits until a device's thread has ended its list, or stopped. One that stays in an action beyond the timeout fails the run; one that
/// does not stop then never comes back.
bool Executor::comes_back(size_t device, Attempt& attempt, const Program& program) {
  const DeviceRun& run = *attempt.runs[device];
  const auto timeout = duration_of(timeout_seconds_);
  const auto patience = timeout + std::min<std::chrono::steady_clock::duration>(timeout, kReport);
  for (;;) {
    const auto failed = attempt.when_failed();
    const auto end = failed ? std::max(run.entered() + patience, *failed + kGrace) : run.entered() + patience;
    if (workers_[device]->wait_until(end)) return true;
    if (std::chrono::steady_clock::now() < run.entered() + patience) continue;  // it is in another action by now
    if (failed) return false;
    const CommError error(
        join("pipeline: an action has not ended within ", timeout_seconds_, " s (pipeline.timeout)", hang(attempt.runs, program)));
    attempt.fail(std::make_exception_ptr(error), error.what());
  }
}

void Executor::give_up(const std::vector<size_t>& devices, Attempt& attempt, const Program& program) {
  std::string places;
  for (const size_t device : devices) {
    const auto& actions = program.devices[device];
    const size_t at = std::min(attempt.runs[device]->position(), actions.size() - 1);
    places += join(places.empty() ? "" : "; ", devices_[device]->name(), " has not come back from ", describe(actions[at], topology_));
  }
  abandoned_ = places + ": nothing but the end of the process ends that";
  try {
    std::rethrow_exception(attempt.first_failure());
  } catch (const std::exception& error) {
    throw HangError(join(error.what(), "\n  ", abandoned_));
  }
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
