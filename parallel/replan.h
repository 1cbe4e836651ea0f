#pragma once
#include <optional>

#include "parallel/plan/options.h"
#include "parallel/plan/predict.h"
#include "parallel/plan/step_times.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

/// Holds a training's plan against its first steps, and may move the training once to a plan that is faster by what these took.
///
/// After kWarmUp steps the actions of kMeasured steps are timed. They correct the counted times (measured_times) and, between the threads
/// of CPU devices, the latency of transfers, and the step is predicted anew. With `moves`, plan() then chooses again by these times what the
/// options leave open, for the same micro-batches: where the step is predicted to be shorter by kWorthMoving or more and every budget holds
/// a step and an evaluation, the trainer moves there (Trainer::move_to) and its steps are timed once more. Weights do not depend on it.
/// Threads  that of the trainer.
/// Errors   what planning, predicting and moving throw; the trainer then goes on as it was.
class Replanner {
 public:
  static constexpr int kWarmUp = 3, kMeasured = 10;
  static constexpr double kWorthMoving = 0.03;  ///< of the step

  /// What was found after so many steps.
  struct Finding {
    Prediction prediction;           ///< of the plan that was timed, by what it took; of no step where it does not fit
    std::vector<int> stage_sizes;    ///< of that plan
    std::optional<Prediction> next;  ///< of the plan that the trainer has now, when that is another one
    bool was_searched = false;       ///< for another plan
  };

  /// `options`  what the user leaves open and fixes. `speeds`  of the devices, for counted times and links. `with_output`  evaluations ask
  /// for the output, which then needs room.
  Replanner(PlanOptions options, DeviceSpeeds speeds, bool moves, bool with_output = false);

  /// No plan is moved to that does not hold steps of mini-batches of these shapes too. Without it those of the declared shape have room.
  void require_room_for(std::vector<BatchShape> shapes) { shapes_ = std::move(shapes); }

  /// Takes the trace of the step that the trainer has just done. Returns what was found, once or, when the training moves, twice.
  std::optional<Finding> note_step(Trainer& trainer);

 private:
  Plan measured(const Trainer& trainer, const StepTimes& steps) const;
  Plan chosen_by(const Plan& measured, const Trainer& trainer) const;
  DeviceSpeeds measured_speeds(const Plan& plan, const StepTimes& steps) const;
  Prediction predicted(const Plan& plan, const Trainer& trainer, const DeviceSpeeds& speeds) const;
  bool holds_copy(const Trainer& trainer) const;
  bool holds_shapes(const Plan& plan, const Trainer& trainer) const;
  std::optional<Prediction> move(Trainer& trainer, const Plan& measured, const DeviceSpeeds& speeds, double seconds);

  PlanOptions options_;
  DeviceSpeeds speeds_;
  std::vector<BatchShape> shapes_;
  bool moves_, with_output_, is_done_ = false;
  int steps_ = 0;              ///< of the plan
  std::vector<Trace> traces_;  ///< of the measured ones
};

}  // namespace sluice::parallel
