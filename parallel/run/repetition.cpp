#include "parallel/run/repetition.h"

#include <algorithm>

namespace sluice::parallel {

namespace {

bool are_alike(const Action& a, const Action& b) { return a.kind == b.kind && a.stage == b.stage && a.transfer == b.transfer; }

/// The positions of each micro-batch's actions in a device's list.
std::vector<std::vector<size_t>> positions_of(const std::vector<Action>& actions, int micro_batches) {
  std::vector<std::vector<size_t>> positions(static_cast<size_t>(micro_batches));
  for (size_t i = 0; i < actions.size(); ++i)
    if (actions[i].micro_batch >= 0) positions[actions[i].micro_batch].push_back(i);
  return positions;
}

bool repeats_second(const std::vector<Action>& actions, int micro_batches) {
  const auto positions = positions_of(actions, micro_batches);
  const auto comes_before = [&](size_t first, size_t later) {
    return std::ranges::equal(positions[first], positions[later],
                              [&](size_t a, size_t b) { return a < b && are_alike(actions[a], actions[b]); });
  };
  for (size_t later = 2; later < positions.size(); ++later)
    if (!comes_before(1, later)) return false;
  return comes_before(0, 1);
}

}  // namespace

bool repeats_micro_batches(const Program& program, int64_t samples) {
  if (!program.training || program.micro_batches < 3 || samples % program.micro_batches != 0) return false;
  return std::ranges::all_of(program.devices, [&](const auto& actions) { return repeats_second(actions, program.micro_batches); });
}

void Repetition::begin() {
  live_ = device_->live_bytes();
  counted_ = device_->counted();
}

void Repetition::end(const Action& action, double seconds, int64_t wire_bytes) {
  const int64_t peak = device_->peak_bytes(), live = device_->live_bytes();
  if (action.micro_batch >= 0) ++ended_[action.micro_batch];
  if (action.micro_batch == 1) taken_.push_back({peak - live_, live - live_, device_->counted() - counted_, seconds, wire_bytes});
}

void Repetition::repeat(const Action& action) {
  const Taken& taken = this->taken(action);
  device_->charge(taken.peak);
  device_->release(taken.peak - taken.left);
  device_->count(taken.cost);
  held_ += taken.left;
  ++ended_[action.micro_batch];
}

}  // namespace sluice::parallel
