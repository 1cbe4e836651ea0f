#pragma once
#include <map>
#include <utility>
#include <vector>

#include "parallel/plan/plan.h"
#include "parallel/run/trace.h"

namespace sluice::parallel {

/// What the actions of steps took, from their traces.
class StepTimes {
 public:
  /// One step's.
  void add(const Trace& trace);
  /// Of an action of a stage (segment) on one micro-batch; 0 where none ran.
  double median(int stage, ActionKind kind) const;
  double mean(int stage, ActionKind kind) const;
  /// Of norm, statistics and optimizer of all devices together, once a mini-batch.
  double median_end() const;
  /// Of those of one device; 0 where none ran.
  double mean_end(int device) const;
  /// From a send to the end of the receive that waited for it; 0 where none waited.
  double mean_hand_over() const;

 private:
  void add_hand_overs(const Trace& trace);
  std::map<std::pair<int, ActionKind>, std::vector<double>> actions_;
  std::map<int, std::vector<double>> ends_;  // by device
  std::vector<double> hand_overs_;
};

/// Those of the half of the steps that are neither the fastest nor the slowest: a step that something disturbed says nothing of the others.
StepTimes times_of_usual(std::vector<Trace> steps);

/// The times of a plan (Plan::times) as its steps showed them: the nodes of each stage add up to what its actions took, in the
/// proportions of `counted`, evenly where that has nothing. Kinds of actions that the plan does not run, and nodes on another kind of
/// device than their own, take as much longer than counted as what is like them. Crowding and copies are in the measured times, and not added again.
std::vector<std::vector<NodeTimes>> measured_times(const Plan& plan, std::vector<std::vector<NodeTimes>> counted, const StepTimes& steps);

}  // namespace sluice::parallel
