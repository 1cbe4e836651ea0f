#pragma once
// What a trainer has and does between two calls: its plan, executor and programs, and the parts of a step. Only trainer.cpp uses it.
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/plan_programs.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

struct Trainer::State {
  State(const layers::Graph& model, Plan chosen, const Optimizer& rule, TrainerOptions wanted);

  /// Set while a step or an evaluation is under way.
  class Running {
   public:
    explicit Running(State& state) : state_(state) { state_.is_running = true; }
    ~Running() { state_.is_running = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    State& state_;
  };
  /// From within a run weights and their step's number need not belong together.
  void require_idle() const;
  /// Weights are the devices' to use when a thread has not come back.
  void require_reachable() const;

  bool computes_on_gpus() const { return plan.devices[0]->kind() == DeviceKind::cuda; }
  /// Whether a replica of the node is on this rank.
  bool is_here(int node) const;

  static Plan checked(Plan plan, const layers::Graph& graph);
  /// The memory of the former executor is free before the next one takes its own.
  void change_plan(Plan other);

  /// What a run needs of its mini-batch, on all ranks or none: what one of them throws all throw, as a rank that went on alone would be a run
  /// ahead of the others.
  struct Prepared {
    PlanPrograms::Use use;
    RunContext run;
  };
  Prepared prepare(const Batch& batch, const std::function<PlanPrograms::Use(BatchShape)>& use_of);
  StepContext next_step() const {
    return {optimizer.get(), {optimizer->rate.at(steps_done), steps_done - steps_skipped + 1, {{}, options.clip}}};
  }

  /// Lets evaluation read the moving averages and training the weights. Nothing is done when they are shown already.
  void show_averages(bool wanted);
  /// Makes the working copies anew, with the rounding of the last step.
  void write_copies();

  /// Before the first step on GPUs: what the step needs is tried, and all ranks take the same choices.
  void settle_choices(const Program& program, const RunContext& context, const StepContext& step);
  RunResult run(const Program& program, const RunContext& context, const StepContext& step);
  void require_finite(const Program& program, const RunContext& context, const StepContext& step, double norm);
  /// A step that was skipped wrote no copies: theirs is the rounding of the step before, and it would be another's wherever they are made
  /// anew.
  void note_step(double norm);
  /// Once the run that asked is over and noted.
  void rethrow_error_of_wish();

  layers::Graph graph;
  Plan plan;
  std::unique_ptr<Optimizer> optimizer;
  TrainerOptions options;
  Group* const group;  ///< null for one process
  Topology topology;
  const StageOptions common;
  std::optional<PlanPrograms> programs;        ///< of `plan`
  GraphChoice graphs{CudaGraphs::off, false};  ///< that make_executor() makes
  std::unique_ptr<Executor> executor;          ///< null when neither of two plans' stages could be made
  bool has_adopted = false;                    ///< a checkpoint's choices
  bool is_settled = false;                     ///< choices are those of all ranks
  std::atomic<bool> is_running = false;        ///< read by loaders on threads of devices
  int64_t steps_done = 0, steps_skipped = 0;   ///< those that were skipped are done
  std::optional<bool> shows_averages = false;
  std::exception_ptr error_of_wish;  ///< of the run that has just ended
  std::string failure;               ///< why the weights may not belong together; empty when they do
  Trace trace;

 private:
  /// As the root's.
  void require_same_training();
  /// What of the options and the optimizer decides the answer, in words; but for the learning rate, which every step compares.
  std::string settings() const;
  void make_executor();
  StageOptions common_options() const;

  RunContext context(const Batch& batch, const PlanPrograms::Use& use);
  Tensor whole_input(const Batch& batch, const BatchShape& shape, const std::string& name) const;
  /// None where the loss is not computed.
  std::vector<double> loss_weights(const Batch& batch, const BatchShape& shape) const;
  /// In words, which all ranks must have alike, with those of the mini-batch's inputs.
  std::string description(const PlanPrograms::Use& use, const std::string& inputs) const;
  /// By then all devices have done their work: an error of the user's is no error of the run, which ends on all ranks.
  Wish ask();

  /// A step that changes nothing: all its actions, without graphs.
  RunResult rehearse(const Program& program, RunContext context, StepContext step);
  bool wants_tuning() const;
  /// Devices wait for each other's trials.
  void tune(const Program& program, const RunContext& context, const StepContext& step);
  /// Agreement itself waits for a rank as long as that lives.
  void require_all_ranks();
  /// Where the first number that is not finite comes from: the step runs again, and every node is watched.
  std::string first_nonfinite(const Program& program, RunContext context, const StepContext& step);
};

}  // namespace sluice::parallel
