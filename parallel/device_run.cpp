#include "parallel/device_run.h"

#include <cmath>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/where.h"

namespace sluice::parallel {

Executor::DeviceRun::DeviceRun(int index, DevicePtr device, const Shared& shared)
    : index_(index), device_(std::move(device)), shared_(shared), actions_(&shared.program.devices[index]) {}

double Executor::DeviceRun::now() const {
  if (counts_only()) return device_->clock_seconds();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - shared_.began).count();
}

std::string Executor::DeviceRun::current() const {
  const size_t at = next_.load(std::memory_order_relaxed);
  return device_->name() + (at < actions_->size() ? " is in " + describe((*actions_)[at], shared_.topology) : " has finished");
}

/// The node whose value a transfer moves, for messages.
const char* Executor::DeviceRun::place_of(const Transfer& transfer) const {
  return transfer.of_micro_batch() ? shared_.topology.nodes[shared_.topology.node_of(transfer.value)].name.c_str() : nullptr;
}

bool Executor::DeviceRun::advance(double seconds) {
  for (size_t at = next_.load(); at < actions_->size(); next_.store(++at, std::memory_order_relaxed)) {
    const Action& action = (*actions_)[at];
    WhereScope scope({place_of(action.transfer), action.stage, action.micro_batch});
    const double start = now();
    if (!execute(action, seconds)) return false;
    for (const Buffer& buffer : action.frees) shared_.stages[buffer.stage]->free(buffer);
    events_.push_back({index_, action, start, now()});
  }
  return true;
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
      break;
  }
  throw UsageError(join("executor: ", describe(action, shared_.topology), " is not part of this version"));
}

void Executor::DeviceRun::send(const Action& action) {
  const Transfer& transfer = action.transfer;
  const int to = transfer.between_devices() ? transfer.to : shared_.program.device_of_stage[transfer.to];
  const Tensor tensor = transfer.payload == Payload::norm_part ? norm_part_
                        : transfer.payload == Payload::norm    ? norm_
                                                               : stage(action).outgoing(transfer, action.micro_batch);
  const auto& speed = device_->options().speed;
  const double link = to == index_ ? 0 : speed.link_latency_seconds + static_cast<double>(tensor.bytes()) / speed.link_bytes_per_second;
  shared_.transport.send(to, {transfer, action.micro_batch}, {tensor.uncharged(), device_->clock_seconds() + link});
}

bool Executor::DeviceRun::receive(const Action& action, double seconds) {
  auto message = shared_.transport.receive(index_, {action.transfer, action.micro_batch}, seconds);
  if (!message) return false;
  if (counts_only()) device_->set_clock(std::max(device_->clock_seconds(), message->available_at));
  Tensor tensor = message->tensor.charged_to(device_);
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
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    for (const auto& parameter : stage->parameters())
      if (parameter.owned)
        copy(sum_of_squares(stage->gradient(parameter)), norm_part_.slice(0, parameter.index, parameter.index + 1).reshape({}));
  }
}

/// Each parameter has one owner, so the parts add without rounding, and the norm is summed in parameter order whatever the partition.
void Executor::DeviceRun::reduce_norm() {
  for (const Tensor& part : other_parts_) norm_part_ = add(norm_part_, part);
  other_parts_.clear();
  norm_ = sum(norm_part_);
}

void Executor::DeviceRun::read_norm() {
  gradient_norm_ = counts_only() ? 0 : std::sqrt(norm_.item());
  require<Error>(std::isfinite(gradient_norm_), "training: the gradient of step ", shared_.step.update.step,
                 " is not finite; no weight was changed. Lower optimizer.lr, set optimizer.clip or lengthen optimizer.warmup");
}

void Executor::DeviceRun::step() {
  read_norm();
  Optimizer::Update update = shared_.step.update;
  if (shared_.step.clip > 0 && gradient_norm_ > shared_.step.clip) update.gradient_scale = shared_.step.clip / gradient_norm_;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    for (auto& parameter : stage->parameters()) {
      if (!parameter.owned) continue;
      update.decay = stage->decays(parameter);
      shared_.step.optimizer->apply(parameter.value, stage->gradient(parameter), parameter.states, update);
      parameter.gradients.clear();
    }
    stage->drop_gradients();
  }
  norm_part_ = Tensor();
  norm_ = Tensor();
}

}  // namespace sluice::parallel
