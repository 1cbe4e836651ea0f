#include "parallel/run/device_run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/graph_scope.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduction.h"
#include "core/ops/sums_of_squares.h"
#include "core/profiler.h"
#include "core/where.h"

namespace sluice::parallel {

Executor::DeviceRun::DeviceRun(int index, DevicePtr device, const Shared& shared)
    : index_(index), device_(std::move(device)), shared_(shared), actions_(&shared.program.devices[index]), entered_(shared.began) {
  if (shared.repeats) repetition_.emplace(device_, micro_batches_of_device(shared.program, index_));
}

double Executor::DeviceRun::now() const {
  if (counts_only()) return shared_.clock->now(index_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - shared_.began).count();
}

void Executor::DeviceRun::take_time() {
  computed_ += device_->clock_seconds();
  shared_.clock->compute(index_, device_->clock_seconds());
  device_->set_clock(0);
}

/// The node whose value a transfer moves, for messages.
const char* Executor::DeviceRun::place_of(const Transfer& transfer) const {
  return transfer.of_micro_batch() ? shared_.topology.nodes[shared_.topology.node_of(transfer.value)].name.c_str() : nullptr;
}

bool Executor::DeviceRun::advance(double seconds) {
  for (size_t at = next_.load(); at < actions_->size(); next_.store(++at, std::memory_order_relaxed)) {
    const Action& action = (*actions_)[at];
    if (!counts_only()) entered_.store(SteadyClock::now(), std::memory_order_relaxed);
    WhereScope scope({place_of(action.transfer), action.stage, action.micro_batch});
    try {
      if (!run_action(at, seconds)) return false;
    } catch (...) {
      rethrow_from(action);
    }
    if (at + 1 == actions_->size() && !counts_only()) read_results();  // until then the device has not finished
  }
  if (counts_only()) restore_peak();
  read_spans();
  return true;
}

bool Executor::DeviceRun::run_action(size_t at, double seconds) {
  const Action& action = (*actions_)[at];
  if (shared_.before_action && !counts_only()) shared_.before_action(index_, action, shared_.failed);
  require_wanted();
  const double start = now();
  Event begun = device_->record(true);
  const ProfilerRange range(*device_, begun ? describe(action, shared_.topology) : std::string());
  GraphScope graph(*device_, shared_.context.cuda_graphs && !action.is_transfer(), static_cast<int64_t>(at));
  if (!run(action, seconds)) return false;
  require_wanted();
  graph.launch();
  end(action);
  events_.push_back({index_, action, start, now(), device_->live_bytes()});
  if (counts_only()) note_bytes(events_.back().action);
  if (begun) spans_.push_back({std::move(begun), device_->record(true)});
  return true;
}

bool Executor::DeviceRun::run(const Action& action, double seconds) {
  wire_bytes_ = 0;
  if (counts_only()) {
    peak_bytes_ = std::max(peak_bytes_, device_->peak_bytes());
    device_->reset_peak();
  }
  if (is_repeated(action)) return repeat(action, seconds);
  if (repetition_) repetition_->begin();
  computed_ = 0;
  if (!execute(action, seconds)) return false;
  if (counts_only()) take_time();
  return true;
}

void Executor::DeviceRun::end(const Action& action) {
  if (is_repeated(action)) return;
  for (const Buffer& buffer : action.frees) shared_.stage_at.at(buffer.stage)->free(buffer);
  if (repetition_) repetition_->end(action, computed_, wire_bytes_);
}

/// The peak was reset when the action began.
void Executor::DeviceRun::note_bytes(Action& action) const {
  action.bytes = wire_bytes_;
  action.peak_bytes = device_->peak_bytes();
  action.live_bytes = device_->live_bytes();
}

/// So that the peak of a device that only counts is that of all actions.
void Executor::DeviceRun::restore_peak() {
  const int64_t live = device_->live_bytes();
  if (peak_bytes_ <= device_->peak_bytes()) return;
  device_->charge(peak_bytes_ - live);
  device_->release(peak_bytes_ - live);
}

bool Executor::DeviceRun::repeat(const Action& action, double seconds) {
  const Repetition::Taken& taken = repetition_->taken(action);
  if (action.is_transfer() && !is_local(action.transfer)) {
    if (!repeat_transfer(action, taken, seconds)) return false;
  } else {
    shared_.clock->compute(index_, taken.seconds);
  }
  wire_bytes_ = taken.wire_bytes;
  repetition_->repeat(action);
  device_->set_clock(0);
  return true;
}

bool Executor::DeviceRun::repeat_transfer(const Action& action, const Repetition::Taken& taken, double seconds) {
  const MessageKey key{action.transfer, action.micro_batch};
  if (action.kind == ActionKind::send_wait) return finish_send(action, seconds);
  if (action.kind == ActionKind::recv) {
    const auto message = shared_.transport.receive(ends(action.transfer), key, seconds);
    if (!message) return false;
    wait_for(message->ready);
  }
  shared_.clock->compute(index_, taken.seconds);
  if (action.kind == ActionKind::recv_post) shared_.transport.post(ends(action.transfer), key, {device_, Tensor(), when()});
  if (action.kind == ActionKind::send)
    shared_.transport.send(ends(action.transfer), key, {Tensor(), when(), taken.wire_bytes, sharing(action.transfer)});
  return true;
}

/// A device that comes back late, when it was given up, touches nothing more.
void Executor::DeviceRun::require_wanted() const {
  require<CommError>(!shared_.failed.stop_requested(), "stopped because another device failed");
}

/// Errors of nodes and of memory name their place already.
void Executor::DeviceRun::rethrow_from(const Action& action) const {
  const std::string place = where().text();
  try {
    throw;
  } catch (const Error& error) {
    if (!place.empty() && std::string_view(error.what()).find(place.substr(2)) != std::string_view::npos) throw;
  } catch (...) {  // says nothing of Sluice
  }
  rethrow_at(join(" (", describe(action, shared_.topology), " on ", device_->name(), ")"));
}

bool Executor::DeviceRun::has_begun_to_change() const {
  const auto change = std::ranges::find_if(*actions_, changes_weights);
  if (change == actions_->end() || position() < static_cast<size_t>(change - actions_->begin())) return false;
  try {
    return !norm_.defined() || std::isfinite(norm_.item());
  } catch (const Error&) {  // of a device that cannot be read any more
    return true;
  }
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
    case ActionKind::shard_gradients:
      stage(action).shard_gradients();
      return true;
    case ActionKind::fold_shards:
      stage(action).fold_shards();
      return true;
    case ActionKind::reduce_tied:
      stage(action).reduce_tied(action.transfer.value);
      return true;
    case ActionKind::recv_post:
      post(action);
      return true;
    case ActionKind::send:
      send(action);
      return true;
    case ActionKind::recv:
      return receive(action, seconds);
    case ActionKind::send_wait:
      return finish_send(action, seconds);
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

bool Executor::DeviceRun::is_local(const Transfer& transfer) const {
  return shared_.program.sender(transfer) == shared_.program.receiver(transfer);
}

/// What a Recv will get; nothing where that cannot be known.
std::optional<layers::ValueType> Executor::DeviceRun::expected(const Action& action) const {
  const Transfer& transfer = action.transfer;
  if (transfer.of_micro_batch()) return shared_.value_types.at(action.micro_batch)->at(transfer.value);
  if (transfer.payload == Payload::norm_part) return layers::ValueType{{shared_.norm_layout.size()}, DType::f64};
  if (transfer.payload == Payload::norm) return layers::ValueType{{}, DType::f64};
  return stage(action).expected(transfer);
}

/// Undefined where the shape is not known before.
Tensor Executor::DeviceRun::make_room(const Action& action) const {
  const auto type = expected(action);
  if (!type) return {};
  const int sender = shared_.program.sender(action.transfer);
  if (!shared_.ranks.is_here(sender)) return room_for(type->shape, type->dtype, device_);
  return room_for(type->shape, type->dtype, device_, *shared_.devices[sender]);
}

void Executor::DeviceRun::post(const Action& action) {
  shared_.transport.post(ends(action.transfer), {action.transfer, action.micro_batch}, {device_, make_room(action), when()});
}

Tensor Executor::DeviceRun::outgoing(const Action& action) const {
  if (action.transfer.payload == Payload::norm_part) return norm_part_;
  if (action.transfer.payload == Payload::norm) return norm_;
  return stage(action).outgoing(action.transfer, action.micro_batch);
}

When Executor::DeviceRun::when() const { return {device_->record(), counts_only() ? now() : 0}; }

void Executor::DeviceRun::wait_for(const When& when) const {
  device_->wait_for(when.event);
  if (counts_only()) shared_.clock->wait(index_, when.seconds);
}

void Executor::DeviceRun::send(const Action& action) {
  const Tensor tensor = outgoing(action);
  const MessageKey key{action.transfer, action.micro_batch};
  wire_bytes_ = tensor.defined() ? tensor.bytes() : 0;
  if (is_local(action.transfer)) {
    handed_over_[key] = tensor.defined() ? tensor.charged_to(device_) : tensor;
    return;
  }
  if (counts_only()) take_time();  // of a copy that goes instead of padded rows
  shared_.transport.send(ends(action.transfer), key, {tensor, when(), wire_bytes_, sharing(action.transfer)});
}

bool Executor::DeviceRun::receive(const Action& action, double seconds) {
  const MessageKey key{action.transfer, action.micro_batch};
  Tensor tensor;
  if (is_local(action.transfer)) {
    auto handed_over = handed_over_.extract(key);
    if (handed_over.empty()) return false;
    tensor = std::move(handed_over.mapped());
  } else {
    auto message = shared_.transport.receive(ends(action.transfer), key, seconds);
    if (!message) return false;
    wait_for(message->ready);
    tensor = std::move(message->tensor);
  }
  wire_bytes_ = tensor.defined() ? tensor.bytes() : 0;
  if (action.transfer.payload == Payload::norm_part)
    other_parts_.push_back(std::move(tensor));
  else if (action.transfer.payload == Payload::norm)
    norm_ = std::move(tensor);
  else
    stage(action).incoming(action.transfer, action.micro_batch, std::move(tensor));
  return true;
}

/// The device's later work waits for the end of a copy, so that the memory serves again in the order of its work.
bool Executor::DeviceRun::finish_send(const Action& action, double seconds) {
  const auto end = shared_.transport.finish_send(ends(action.transfer), {action.transfer, action.micro_batch}, seconds);
  if (!end) return false;
  wait_for(*end);
  return true;
}

void Executor::DeviceRun::norm_parts() {
  norm_part_ = zeros({shared_.norm_layout.size()}, DType::f64, device_);
  std::vector<Tensor> gradients;
  std::vector<int64_t> places;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    for (const ShardPiece& piece : stage->shard()) {
      const Tensor gradient = stage->gradient(piece);
      if (const NormLayout::Split* split = shared_.norm_layout.split(piece.parameter)) {
        const auto [first, chunks] = shared_.norm_layout.chunks_of(*split, piece.elements);
        squares_of_chunks(gradient, norm_part_.slice(0, first, first + chunks));
      } else {
        gradients.push_back(gradient);
        places.push_back(piece.parameter);
      }
    }
  }
  sums_of_squares(gradients, norm_part_, places);
}

/// Each place has one owner, so the parts add without rounding; each parameter's sum is made in the order of its chunks, and the norm in
/// that of parameters, whatever the partition and the replicas.
void Executor::DeviceRun::reduce_norm() {
  for (const Tensor& part : other_parts_) norm_part_ = add(norm_part_, part);
  other_parts_.clear();
  const NormLayout& layout = shared_.norm_layout;
  for (const auto& [parameter, first, chunks] : layout.splits())
    sum_of_chunks(norm_part_.slice(0, first, first + chunks), norm_part_, parameter);
  norm_ = sum(norm_part_.slice(0, 0, layout.parameters()));
  if (shared_.step.changes_nothing) fill(norm_, std::numeric_limits<double>::quiet_NaN());
}

/// All that the host wants of a device, by one copy: the only time in a run that it waits for the device's work.
void Executor::DeviceRun::read_results() {
  std::vector<Tensor> numbers;
  std::vector<int> micro_batches;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    for (const auto& [micro_batch, loss] : stage->losses()) {
      micro_batches.push_back(micro_batch);
      numbers.push_back(loss);
    }
  }
  if (norm_.defined()) numbers.push_back(norm_);
  const std::vector<double> read = items(*device_, numbers);
  for (size_t i = 0; i < micro_batches.size(); ++i) results_.losses[micro_batches[i]] = read[i];
  if (norm_.defined()) results_.gradient_norm = std::sqrt(read.back());
}

/// Reads nothing back: whether the norm is finite shows after the run, and the step itself leaves all as it is when it is not.
void Executor::DeviceRun::step() {
  Optimizer::Update update = shared_.step.update;
  update.clip.sum_of_squares = norm_;
  std::vector<OptimizerSlot> slots;
  std::vector<MovingAverage> averages;
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    std::ranges::move(stage->slots(int64_t{shared_.context.step} + 1), std::back_inserter(slots));
    std::ranges::move(stage->averages(), std::back_inserter(averages));
  }
  shared_.step.optimizer->step(slots, update);
  moving_average_step(averages, shared_.step.optimizer->ema_decay(update.step), norm_);
  for (const auto& stage : shared_.stages) {
    if (stage->device() != device_) continue;
    stage->copy_masters();
    stage->drop_gradients();
  }
  norm_part_ = Tensor();
}

}  // namespace sluice::parallel
