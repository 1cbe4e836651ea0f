#include "parallel/run/executor.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>

#include "core/keep_to_the_end.h"
#include "core/ops/concat.h"
#include "parallel/group/collectives.h"
#include "parallel/group/deadline.h"
#include "parallel/run/agreement.h"
#include "parallel/run/attempt.h"
#include "parallel/run/gpu_rank_transport.h"
#include "parallel/run/nccl_links.h"
#include "parallel/run/rank_results.h"
#include "parallel/run/rank_transport.h"

namespace sluice::parallel {

namespace {

Dataflow training_flow(Layout layout) {
  const std::string fault = mismatch(layout);
  require(fault.empty(), "executor: needs a partition and a placement of its model, but ", fault);
  layout.training = true;
  return dataflow(layout);
}

double seconds_of(std::chrono::steady_clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

}  // namespace

Executor::Executor(const layers::Graph& graph, const Layout& layout, std::vector<DevicePtr> devices, const StageOptions& options,
                   double timeout_seconds, std::shared_ptr<Group> group)
    : topology_(layout.topology),
      partition_(layout.partition),
      device_of_stage_(layout.device_of_stage),
      rematerialize_(layout.rematerialize),
      replication_(layout.replication),
      flow_(training_flow(layout)),
      norm_layout_(graph, layout, devices.at(0)->backend()),
      group_(group && group->size() > 1 ? std::move(group) : nullptr),
      ranks_(group_ ? DeviceRanks(static_cast<int>(devices.size()), *group_) : DeviceRanks(static_cast<int>(devices.size()))),
      devices_(std::move(devices)),
      value_types_(graph, options.precision),
      timeout_seconds_(timeout_seconds) {
  require(!devices_.empty(), "executor: needs at least one device");
  for (const auto& device : devices_)
    require(device->kind() == devices_[0]->kind(), "executor: needs devices of one kind, got ", devices_[0]->name(), " and ",
            device->name());
  require(!group_ || devices_[0]->kind() != DeviceKind::meta, "pipeline.devices: needs cpu or cuda devices for several ranks, got ",
          devices_[0]->name(), "; devices that only count run in one process");
  if (connects_gpus()) require_one_nccl(*group_);
  for (int device = 0; device < ranks_.devices(); ++device)
    if (ranks_.is_here(device)) here_.push_back(device);
  if (devices_[0]->kind() != DeviceKind::meta)
    for (size_t i = 0; i < here_.size(); ++i) workers_.push_back(std::make_unique<Worker>());
  make_stages(graph, options);
  if (!group_) return;
  clock_offset_ = clock_offset(*group_);
  group_->set_status([this] { return status(); });
}

void Executor::make_stages(const layers::Graph& graph, const StageOptions& options) {
  std::map<int, layers::Tables> tables;
  for (const int device : here_) tables.try_emplace(device, devices_[device], working_dtype(options.precision));
  for (int stage = 0; stage < static_cast<int>(device_of_stage_.size()); ++stage) {
    const int device = device_of_stage_[stage];
    if (!ranks_.is_here(device)) continue;
    stages_.push_back(std::make_unique<Stage>(graph, layout(), flow_, stage, devices_[device], tables.at(device), options));
    stage_at_[stage] = stages_.back().get();
  }
}

std::unique_ptr<Transport> Executor::make_transport(Clock* clock) const {
  auto local = make_local_transport(static_cast<int>(here_.size()), clock);
  if (connects_gpus()) return make_gpu_rank_transport(*group_, ranks_, links_, std::move(local), run_number_);
  return group_ ? make_rank_transport(*group_, ranks_, std::move(local), run_number_) : std::move(local);
}

/// Both ends of a communicator of NCCL end together. A rank that an error ends does so alone, and must not wait for the others.
Executor::~Executor() {
  if (!group_) return;
  group_->set_status({});
  if (!group_->failure().empty() || std::uncaught_exceptions() > 0) keep_to_the_end(std::move(links_));
}

std::shared_ptr<Executor::Attempt> Executor::begin(const Program& program, const RunContext& context, const StepContext& step) {
  auto attempt = std::make_shared<Attempt>(*this, context, step, types_of(context));
  if (attempt->clock) attempt->sharing.emplace(program, attempt->clock->links());
  const DeviceRun::Shared shared{program,
                                 attempt->context,
                                 attempt->step,
                                 topology_,
                                 stages_,
                                 stage_at_,
                                 devices_,
                                 norm_layout_,
                                 ranks_,
                                 *attempt->transport,
                                 attempt->began,
                                 attempt->before_action,
                                 attempt->failed.get_token(),
                                 attempt->value_types,
                                 attempt->clock ? &*attempt->clock : nullptr,
                                 attempt->sharing ? &*attempt->sharing : nullptr,
                                 repeats(program, context)};
  for (const int device : here_) attempt->runs.push_back(std::make_unique<DeviceRun>(device, devices_[device], shared));
  std::lock_guard lock(current_mutex_);
  current_ = attempt;
  return attempt;
}

/// By micro-batch; of no use on one device.
std::vector<std::shared_ptr<const ValueTypes::List>> Executor::types_of(const RunContext& context) {
  std::vector<std::shared_ptr<const ValueTypes::List>> types;
  for (int m = 0; devices_.size() > 1 && m < context.micro_batches(); ++m)
    types.push_back(value_types_.of(context.shape, context.first_sample[m + 1] - context.first_sample[m], context.training));
  return types;
}

RunResult Executor::run(const Program& program, const RunContext& context, const StepContext& step) {
  ++run_number_;
  require<HangError>(!is_abandoned(), abandoned_);
  require(program.partition.sizes == partition_.sizes && program.device_of_stage == device_of_stage_ &&
              program.device_count() == static_cast<int>(devices_.size()) && program.rematerialize == rematerialize_ &&
              program.replication == replication_,
          "executor: needs a program of the partition, placement, replicas and rematerialization that it was made for; lower one from the "
          "same plan");
  failed_midway_ = false;
  if (connects_gpus()) connect(program);
  for (const auto& device : devices_)
    if (device->kind() == DeviceKind::meta) device->set_clock(0);
  const auto attempt = begin(program, context, step);
  RunResult result;
  try {
    workers_.empty() ? run_on_clock(*attempt, program) : run_on_workers(attempt, program);
    result = collect(*attempt);
    if (group_) share(*group_, ranks_, program, seconds_of(attempt->began) + clock_offset_, result);
  } catch (const HangError&) {  // what the stages hold is in use
    throw;
  } catch (...) {
    failed_midway_ = std::ranges::any_of(attempt->runs, [](const auto& run) { return run->has_begun_to_change(); });
    for (auto& stage : stages_) {
      stage->reset();
      stage->end_sequences();
    }
    rethrow_with_positions(*attempt, program);
  }
  for (auto& stage : stages_) stage->reset();
  return result;
}

namespace {

/// In which a device that was told to stop does so, on a busy machine too.
constexpr std::chrono::seconds kGrace(5);
/// In which a device reports its own wait, at most, before it is taken to be in an action that does not end.
constexpr std::chrono::seconds kReport(1);

}  // namespace

/// On the thread of a device, which may be lost in NCCL. A rank that fails here ends the job, as one does in a run.
void Executor::connect(const Program& program) {
  const auto channels = channels_between_ranks(program, ranks_);
  if (std::ranges::includes(connected_, channels)) return;
  const auto error = std::make_shared<std::exception_ptr>();
  workers_[0]->submit([this, channels, error] {
    try {
      connect_by_nccl(*group_, ranks_, devices_, channels, timeout_seconds_, links_);
    } catch (...) {
      *error = std::current_exception();
    }
  });
  try {
    if (!has_connected()) {
      const std::string cause = group_->failure();
      abandoned_ = join("pipeline: NCCL has not connected the GPUs of all ranks",
                        cause.empty() ? join(" within ", timeout_seconds_, " s (pipeline.timeout)") : ": " + cause,
                        "\n  nothing but the end of the process ends that; see that all hosts reach each other over the interfaces of "
                        "NCCL_SOCKET_IFNAME (NCCL_DEBUG=INFO says what it does)");
      throw HangError(abandoned_);
    }
    if (*error) std::rethrow_exception(*error);
  } catch (const std::exception& failure) {
    group_->abort(failure.what());
    throw;
  }
  connected_.insert(channels.begin(), channels.end());
}

/// False when the thread does not come back in time.
bool Executor::has_connected() {
  auto end = deadline_in(timeout_seconds_) + kGrace;
  while (!workers_[0]->wait_until(std::min(end, std::chrono::steady_clock::now() + kReport))) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    if (!group_->failure().empty()) end = std::min(end, now + kGrace);
  }
  return true;
}

/// Devices that only count, without budgets that a micro-batch could pass or tallies of single kernels, and stages that keep nothing of a
/// micro-batch until the end.
bool Executor::repeats(const Program& program, const RunContext& context) const {
  return workers_.empty() && repeats_micro_batches(program, context.batch->samples) &&
         std::ranges::none_of(flow_.stages, &StageFlow::commits_statistics) && std::ranges::all_of(devices_, [](const auto& device) {
           return device->budget_bytes() == kUnlimited && !device->options().tallies_kernels;
         });
}

/// Every device on its own thread. The first failure closes the transport, which stops the others.
void Executor::run_on_workers(const std::shared_ptr<Attempt>& attempt, const Program& program) {
  for (size_t i = 0; i < workers_.size(); ++i)
    workers_[i]->submit([this, attempt, i, &program] {
      try {
        if (attempt->runs[i]->advance(timeout_seconds_)) return;
        throw CommError(join("pipeline: no message within ", timeout_seconds_, " s (pipeline.timeout)", hang(*attempt, program)));
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
bool Executor::comes_back(size_t index, Attempt& attempt, const Program& program) {
  const DeviceRun& run = *attempt.runs[index];
  const auto timeout = duration_of(timeout_seconds_);
  const auto patience = timeout + std::min<std::chrono::steady_clock::duration>(timeout, kReport);
  for (;;) {
    const auto failed = attempt.when_failed();
    const auto end = failed ? std::max(run.entered() + patience, *failed + kGrace) : run.entered() + patience;
    if (workers_[index]->wait_until(end)) return true;
    if (std::chrono::steady_clock::now() < run.entered() + patience) continue;  // it is in another action by now
    if (failed) return false;
    const CommError error(
        join("pipeline: an action has not ended within ", timeout_seconds_, " s (pipeline.timeout)", hang(attempt, program)));
    attempt.fail(std::make_exception_ptr(error), error.what());
  }
}

/// `lost`: of the runs here.
void Executor::give_up(const std::vector<size_t>& lost, Attempt& attempt, const Program& program) {
  std::string places;
  for (const size_t run : lost) {
    const auto& actions = program.devices[here_[run]];
    const std::string name = devices_[here_[run]]->name();
    const size_t at = std::min(attempt.runs[run]->position(), actions.size() - 1);
    places += join(places.empty() ? "" : "; ", name, " has not come back from ", describe(actions[at], topology_));
  }
  abandoned_ = places + ": nothing but the end of the process ends that";
  try {
    std::rethrow_exception(attempt.first_failure());
  } catch (const std::exception& error) {
    throw HangError(join(error.what(), "\n  ", abandoned_));
  }
}

/// Meta devices take turns in one thread; a device waits when the message is not sent yet.
void Executor::run_on_clock(Attempt& attempt, const Program& program) {
  Runs& runs = attempt.runs;
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
    if (progress() == before) throw CommError("pipeline: the devices wait for ever" + hang(attempt, program));
  }
}

/// What this rank knows.
RunResult Executor::collect(const Attempt& attempt) {
  RunResult result;
  for (const auto& run : attempt.runs) result.trace.events.insert(result.trace.events.end(), run->events().begin(), run->events().end());
  for (const auto& device : devices_) {
    result.trace.device_names.push_back(device->name());
    result.peak_bytes.push_back(device->peak_bytes());
    result.flops += device->counted().flops;
  }
  result.flops -= attempt.flops_before;
  result.trace.seconds =
      attempt.clock ? attempt.clock->seconds() : seconds_of(std::chrono::steady_clock::now()) - seconds_of(attempt.began);
  result.bubble = result.trace.bubble();
  result.gradient_norm = attempt.runs[0]->results().gradient_norm;
  result.loss_weight = attempt.context.loss_weight();
  result.bytes_between_ranks = attempt.transport->bytes_from_ranks();
  if (attempt.context.wish) result.wish = attempt.context.wish();
  if (workers_.empty()) return result;
  std::map<int, double> losses;
  for (const auto& run : attempt.runs) losses.insert(run->results().losses.begin(), run->results().losses.end());
  for (const auto& [micro_batch, loss] : losses) result.losses.push_back(loss);
  result.loss = std::accumulate(result.losses.begin(), result.losses.end(), 0.0);
  std::map<int, std::vector<Tensor>> outputs;
  for (const auto& stage : stages_)
    for (const auto& [node, parts] : stage->outputs())
      for (const auto& [micro_batch, output] : parts) outputs[node].push_back(output.to(default_device()));
  for (const auto& [node, parts] : outputs) result.outputs[node] = concat(parts, 0);
  return result;
}

}  // namespace sluice::parallel
