#include "parallel/run/repetition.h"

#include <algorithm>

namespace sluice::parallel {

namespace {

bool are_alike(const Action& a, const Action& b) { return a.kind == b.kind && a.stage == b.stage && a.transfer == b.transfer; }

/// Where a micro-batch's actions stand in a device's list. What posts receives makes room and no more, so it may stand anywhere between.
struct Positions {
  std::vector<size_t> posts, others;
};

std::vector<Positions> positions_of(const std::vector<Action>& actions, int micro_batches) {
  std::vector<Positions> positions(static_cast<size_t>(micro_batches));
  for (size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].micro_batch < 0) continue;
    Positions& own = positions[static_cast<size_t>(actions[i].micro_batch)];
    (actions[i].kind == ActionKind::recv_post ? own.posts : own.others).push_back(i);
  }
  for (Positions& own : positions) std::ranges::stable_sort(own.posts, {}, [&](size_t post) { return actions[post].transfer; });
  return positions;
}

bool repeats_second(const std::vector<Action>& actions, const MicroBatchRange& own, int micro_batches) {
  const auto positions = positions_of(actions, micro_batches);
  const auto stands_before = [&](size_t a, size_t b) { return a < b && are_alike(actions[a], actions[b]); };
  const auto comes_before = [&](int first, int later) {
    return std::ranges::equal(positions[first].posts, positions[later].posts, stands_before) &&
           std::ranges::equal(positions[first].others, positions[later].others, stands_before);
  };
  for (int later = own.first + 2; later < own.end; ++later)
    if (!comes_before(own.first + 1, later)) return false;
  return comes_before(own.first, own.first + 1);
}

}  // namespace

MicroBatchRange micro_batches_of_device(const Program& program, int device) {
  const auto stage = std::ranges::find(program.device_of_stage, device) - program.device_of_stage.begin();
  return program.micro_batches_of(static_cast<int>(stage));
}

bool repeats_micro_batches(const Program& program, int64_t samples) {
  const auto& [replicas, blocks, shards] = program.replication;
  if (!program.training || program.micro_batches < 3 * replicas || samples % program.micro_batches != 0 || blocks > replicas) return false;
  for (int device = 0; device < program.device_count(); ++device)
    if (!repeats_second(program.devices[device], micro_batches_of_device(program, device), program.micro_batches)) return false;
  return true;
}

void Repetition::begin() {
  live_ = device_->live_bytes();
  counted_ = device_->counted();
}

void Repetition::end(const Action& action, double seconds, int64_t wire_bytes) {
  const int64_t peak = device_->peak_bytes(), live = device_->live_bytes();
  const Taken taken{peak - live_, live - live_, device_->counted() - counted_, seconds, wire_bytes};
  const bool is_post = action.kind == ActionKind::recv_post;
  if (action.micro_batch == first_ + 1 && is_post) posts_.emplace(action.transfer, taken);
  if (action.micro_batch == first_ + 1 && !is_post) taken_.push_back(taken);
}

void Repetition::repeat(const Action& action) {
  const Taken& taken = this->taken(action);
  device_->charge(taken.peak);
  device_->release(taken.peak - taken.left);
  device_->count(taken.cost);
  held_ += taken.left;
  if (action.kind != ActionKind::recv_post) ++ended_[action.micro_batch];
}

}  // namespace sluice::parallel
