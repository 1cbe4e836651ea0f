#include "parallel/run/device_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/graph_scope.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/ops/sums_of_squares.h"
#include "core/profiler.h"
#include "core/where.h"
#include "parallel/program/links.h"

namespace sluice::parallel {

Executor::DeviceRun::DeviceRun(int index, DevicePtr device, const Shared& shared)
    : index_(index), device_(std::move(device)), shared_(shared), actions_(&shared.program.devices[index]) {}

double Executor::DeviceRun::now() const {
  if (counts_only()) return device_->clock_seconds();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - shared_.began).count();
}

/// The node whose value a transfer moves, for messages.
const char* Executor::DeviceRun::place_of(const Transfer& transfer) const {
  return transfer.of_micro_batch() ? shared_.topology.nodes[shared_.topology.node_of(transfer.value)].name.c_str() : nullptr;
}

bool Executor::DeviceRun::advance(double seconds) {
  for (size_t at = next_.load(); at < actions_->size(); next_.store(++at, std::memory_order_relaxed)) {
    const Action& action = (*actions_)[at];
    WhereScope scope({place_of(action.transfer), action.stage, action.micro_batch});
    if (shared_.before_action && !counts_only()) shared_.before_action(index_, action, shared_.failed);
    if (shared_.context.counts_bytes) device_->reset_peak();
    moved_bytes_ = 0;
    const double start = now();
    Moment begun = device_->record(true);
    const ProfilerRange range(*device_, begun ? describe(action, shared_.topology) : std::string());
    const bool computes = action.kind != ActionKind::send && action.kind != ActionKind::recv;
    GraphScope graph(*device_, shared_.context.cuda_graphs && computes, static_cast<int64_t>(at));
    if (!execute(action, seconds)) return false;
    graph.launch();
    for (const Buffer& buffer : action.frees) shared_.stages[buffer.stage]->free(buffer);
    events_.push_back({index_, action, start, now(), device_->live_bytes()});
    if (shared_.context.counts_bytes) note_bytes(events_.back().action);
    if (begun) spans_.push_back({std::move(begun), device_->record(true)});
  }
  device_->synchronize();
  read_spans();
  return true;
}

bool Executor::DeviceRun::has_begun_to_change() const {
  const auto change = std::ranges::find_if(*actions_, changes_weights);
  if (change == actions_->end() || position() < static_cast<size_t>(change - actions_->begin())) return false;
  try {
    return std::isfinite(gradient_norm());
  } catch (const Error&) {  // of a device that cannot be read any more
    return true;
  }
}

/// The peak was reset when the action began.
void Executor::DeviceRun::note_bytes(Action& action) const {
  action.bytes = moved_bytes_;
  action.peak_bytes = device_->peak_bytes();
  action.live_bytes = device_->live_bytes();
}

/// Replaces the times at which actions were enqueued by those at which the device ran them. The device was idle when the run began.
void Executor::DeviceRun::read_spans() {
  if (spans_.empty()) return;
  const double began = events_.front().start;
  for (size_t i = 0; i < spans_.size(); ++i) {
    events_[i].start = began + seconds_between(spans_[0].first, spans_[i].first);
    events_[i].end = began + seconds_between(spans_[0].first, spans_[i].second);
  }
  spans_.clear();
}

bool Executor::DeviceRun::execute(const Action& action, double seconds) {
  switch (action.kind) {
    case ActionKind::forward:
      stage(action).forward(shared_.context, action.micro_batch);
      return true;
    case ActionKind::recompute:
      stage(action).recompute(shared_.context, action.micro_batch);
      return true;
    case ActionKind::backward:
      stage(action).backward(action.micro_batch);
      return true;
    case ActionKind::input_gradient:
      stage(action).input_gradient(action.micro_batch);
      return true;
    case ActionKind::weight_gradient:
      stage(action).weight_gradient(action.micro_batch);
      return true;
    case ActionKind::reduce_tied:
      stage(action).reduce_tied(action.transfer.value);
      return true;
    case ActionKind::send:
      send(action);
      return true;
    case ActionKind::recv:
      return receive(action, seconds);
    case ActionKind::gradient_norm:
      norm_parts();
      return true;
    case ActionKind::reduce_norm:
      reduce_norm();
      return true;
    case ActionKind::step:
      step();
      return true;
    case ActionKind::commit_statistics:
      stage(action).statistics().commit(norm_, shared_.step.optimizer->ema_decay(shared_.step.update.step));
      return true;
  }
  throw UsageError(join("executor: needs an action of ActionKind, got number ", static_cast<int>(action.kind), "; lower the plan again"));
}

namespace {

Link link_of(const Device& device) { return {device.options().speed.link_latency_seconds, device.options().speed.link_bytes_per_second}; }

}  // namespace

void Executor::DeviceRun::send(const Action& action) {
  const Transfer& transfer = action.transfer;
  const int to = transfer.between_devices() ? transfer.to : shared_.program.device_of_stage[transfer.to];
  const Tensor tensor = transfer.payload == Payload::norm_part ? norm_part_
                        : transfer.payload == Payload::norm    ? norm_
                                                               : stage(action).outgoing(transfer, action.micro_batch);
  const Link link = slower(link_of(*device_), link_of(*shared_.devices[to]));
  moved_bytes_ = tensor.defined() ? tensor.bytes() : 0;
  const double seconds = to == index_ ? 0 : link.latency_seconds + link.wire_seconds(static_cast<double>(moved_bytes_));
  shared_.transport.send(
      to, {transfer, action.micro_batch},
      {to == index_ || !tensor.defined() ? tensor : tensor.uncharged(), device_->record(), device_->clock_seconds() + seconds});
}

bool Executor::DeviceRun::receive(const Action& action, double seconds) {
  auto message = shared_.transport.receive(index_, {action.transfer, action.micro_batch}, seconds);
  if (!message) return false;
  moved_bytes_ = message->tensor.defined() ? message->tensor.bytes() : 0;
  if (counts_only()) device_->set_clock(std::max(device_->clock_seconds(), message->available_at));
  Tensor tensor = message->tensor.defined() ? message->tensor.to(device_, message->ready) : Tensor();
  if (action.transfer.payload == Payload::norm_part)
    other_parts_.push_back(std::move(tensor));
  else if (action.transfer.payload == Payload::norm)
    norm_ = std::move(tensor);
  else
    stage(action).incoming(action.transfer, action.micro_batch, std::move(tensor));
  return true;
}

void Executor::DeviceRun::norm_parts() {
  int64_t parameters = 0;
  for (const auto& stage : shared_.stages)
    for (const auto& parameter : stage->parameters()) parameters = std::max<int64_t>(parameters, parameter.index + 1);
  norm_part_ = zeros({parameters}, DType::f64, device_);
  std::vector<Tensor> gradients;
  std::vector<int64_t> places;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    for (const auto& parameter : stage->parameters())
      if (parameter.owned) {
        gradients.push_back(stage->gradient(parameter));
        places.push_back(parameter.index);
      }
  }
  sums_of_squares(gradients, norm_part_, places);
}

/// Each parameter has one owner, so the parts add without rounding, and the norm is summed in parameter order whatever the partition.
void Executor::DeviceRun::reduce_norm() {
  for (const Tensor& part : other_parts_) norm_part_ = add(norm_part_, part);
  other_parts_.clear();
  norm_ = sum(norm_part_);
}

double Executor::DeviceRun::gradient_norm() const { return norm_.defined() && !counts_only() ? std::sqrt(norm_.item()) : 0; }

/// Reads nothing back: whether the norm is finite shows after the run, and the step itself leaves all as it is when it is not.
void Executor::DeviceRun::step() {
  Optimizer::Update update = shared_.step.update;
  update.clip.sum_of_squares = norm_;
  std::vector<OptimizerSlot> slots;
  std::vector<MovingAverage> averages;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    std::ranges::move(stage->slots(update.step), std::back_inserter(slots));
    std::ranges::move(stage->averages(), std::back_inserter(averages));
  }
  shared_.step.optimizer->apply(slots, update);
  moving_average_step(averages, shared_.step.optimizer->ema_decay(update.step), norm_);
  for (const auto& stage : shared_.stages)
    if (stage->device() == device_) stage->drop_gradients();
  norm_part_ = Tensor();
}

}  // namespace sluice::parallel
