#pragma once
#include <limits>
#include <vector>

#include "parallel/program/clock.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

/// When something arrives of which a part is not sent yet.
inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Stages at work on a Clock, in an order that the caller decides action by action: when what a stage waits for is there, and how many bytes
/// its device holds.
/// Threads  one.
class StageClock {
 public:
  /// `costs` and `device_of_stage` must live as long.
  StageClock(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches);

  const Clock& clock() const { return clock_; }
  double held(int device) const { return held_[device]; }
  double peak(int device) const { return peak_[device]; }

  /// When all activations that the forward waits for are there; kUnknown while one of them is not sent.
  double activation(int stage, int micro_batch) const { return activations_[place(stage, micro_batch)].time(); }
  /// The same of the gradients that the backward waits for, and of its own forward.
  double gradient(int stage, int micro_batch) const { return gradients_[place(stage, micro_batch)].time(); }
  /// When the action may begin, recomputation aside; a weight gradient at once.
  double arrival(const ComputeAction& action) const;

  /// How long the action takes, with its recomputation.
  double seconds(const ComputeAction& action) const;

  /// The device of the stage waits until `earliest`, recomputes, waits for what the action needs, which must have been sent, runs it and
  /// sends what it makes.
  void run(const ComputeAction& action, double earliest = 0);

  /// What the last action completed.
  struct Completed {
    int stage;
    double arrival;
  };
  const std::vector<Completed>& completed() const { return completed_; }

 private:
  /// What an action waits for: how many of it are still to be sent, and when the last of the others arrives.
  struct Arrival {
    int missing = 0;
    double latest = 0;
    double time() const { return missing > 0 ? kUnknown : latest; }
  };

  std::size_t place(int stage, int micro_batch) const { return static_cast<std::size_t>(stage) * micro_batches_ + micro_batch; }
  double own_seconds(const ComputeAction& action) const;
  void hold(const ComputeAction& action);
  void add(Arrival& arrival, int stage, double time);
  void send(const std::vector<StageTransfer>& transfers, std::vector<Arrival>& arrivals, int micro_batch);

  const StageCosts& costs_;
  const std::vector<int>& device_of_stage_;
  const int micro_batches_;
  Clock clock_;
  std::vector<std::vector<StageTransfer>> after_forward_, after_backward_;  // by sending stage
  std::vector<Arrival> activations_, gradients_;                            // by place
  std::vector<double> held_, peak_;                                         // by device
  std::vector<Completed> completed_;
};

}  // namespace sluice::parallel
