#include "parallel/schedule/stage_clock.h"

#include <algorithm>

namespace sluice::parallel {

namespace {

/// Transfers by the stage that sends them.
std::vector<std::vector<StageTransfer>> by_sender(const std::vector<StageTransfer>& transfers, std::size_t stages) {
  std::vector<std::vector<StageTransfer>> sorted(stages);
  for (const StageTransfer& transfer : transfers) sorted[transfer.from].push_back(transfer);
  return sorted;
}

bool is_backward(Compute kind) { return kind == Compute::backward || kind == Compute::input_gradient; }

}  // namespace

StageClock::StageClock(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches)
    : costs_(costs),
      device_of_stage_(device_of_stage),
      micro_batches_(micro_batches),
      clock_(devices, costs.links),
      activations_(device_of_stage.size() * micro_batches),
      gradients_(activations_.size(), {1, 0}),  // its own forward
      held_(devices, 0.0),
      peak_(devices, 0.0) {
  const auto transfers = transfers_of(costs, static_cast<int>(device_of_stage.size()));
  after_forward_ = by_sender(transfers.activations, device_of_stage.size());
  after_backward_ = by_sender(transfers.gradients, device_of_stage.size());
  const auto wait_for = [&](const std::vector<StageTransfer>& sent, std::vector<Arrival>& arrivals) {
    for (const StageTransfer& transfer : sent)
      for (int m = 0; m < micro_batches; ++m) ++arrivals[place(transfer.to, m)].missing;
  };
  wait_for(transfers.activations, activations_);
  wait_for(transfers.gradients, gradients_);
}

double StageClock::arrival(const ComputeAction& action) const {
  if (action.kind == Compute::weight_gradient) return 0;
  return action.kind == Compute::forward ? activation(action.stage, action.micro_batch) : gradient(action.stage, action.micro_batch);
}

double StageClock::own_seconds(const ComputeAction& action) const {
  switch (action.kind) {
    case Compute::forward:
      return costs_.forward[action.stage];
    case Compute::backward:
      return costs_.backward[action.stage];
    case Compute::input_gradient:
      return costs_.input_gradient[action.stage];
    case Compute::weight_gradient:
      return costs_.weight_gradient[action.stage];
  }
  return 0;
}

double StageClock::seconds(const ComputeAction& action) const {
  return own_seconds(action) + (is_backward(action.kind) ? cost_at(costs_.recompute, action.stage) : 0);
}

void StageClock::run(const ComputeAction& action, double earliest) {
  const int device = device_of_stage_[action.stage];
  completed_.clear();
  clock_.wait(device, earliest);
  if (is_backward(action.kind)) clock_.compute(device, cost_at(costs_.recompute, action.stage));
  clock_.wait(device, arrival(action));
  clock_.compute(device, own_seconds(action));
  hold(action);
  if (action.kind == Compute::forward) {
    add(gradients_[place(action.stage, action.micro_batch)], action.stage, clock_.now(device));
    send(after_forward_[action.stage], activations_, action.micro_batch);
  } else if (is_backward(action.kind)) {
    send(after_backward_[action.stage], gradients_, action.micro_batch);
  }
}

void StageClock::hold(const ComputeAction& action) {
  const int device = device_of_stage_[action.stage];
  const double kept = cost_at(costs_.kept, action.stage), for_weights = cost_at(costs_.kept_for_weights, action.stage);
  if (action.kind == Compute::forward) held_[device] += kept;
  if (action.kind == Compute::backward) held_[device] -= kept;
  if (action.kind == Compute::input_gradient) held_[device] += for_weights - kept;
  if (action.kind == Compute::weight_gradient) held_[device] -= for_weights;
  peak_[device] = std::max(peak_[device], held_[device]);
}

void StageClock::add(Arrival& arrival, int stage, double time) {
  --arrival.missing;
  arrival.latest = std::max(arrival.latest, time);
  if (arrival.missing == 0) completed_.push_back({stage, arrival.latest});
}

void StageClock::send(const std::vector<StageTransfer>& transfers, std::vector<Arrival>& arrivals, int micro_batch) {
  for (const auto& [from, to, bytes] : transfers) {
    const int sender = device_of_stage_[from];
    add(arrivals[place(to, micro_batch)], to, clock_.transfer(sender, device_of_stage_[to], clock_.now(sender), bytes).arrived);
  }
}

}  // namespace sluice::parallel
