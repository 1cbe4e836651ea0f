#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/cuda/tuned.h"
#include "parallel/group/group.h"
#include "parallel/plan.h"
#include "parallel/run/divergence.h"
#include "parallel/run/graph_choice.h"
#include "parallel/run/placement.h"
#include "parallel/run/run_errors.h"
#include "parallel/run/state_parts.h"
#include "parallel/run/trace.h"
#include "parallel/run/wish.h"
#include "parallel/samples_here.h"

namespace sluice::parallel {

class Executor;

/// What a step does whose gradient is not finite. It changes no weight in either case.
enum class OnNonfinite {
  stop,  ///< it throws
  skip,  ///< it counts as a step, with StepResult::was_skipped
};

/// Steps of the longest training: random masks and stochastic rounding take 32 bits of a step's number.
inline constexpr int64_t kMostSteps = 0xFFFFFFFF;

struct TrainerOptions {
  uint64_t seed = 0;                 ///< of parameters and random masks
  double clip = 0;                   ///< largest global gradient norm; 0 = no clipping
  double timeout_seconds = 600;      ///< of every wait of one device for another, of ranks for each other before a run, and of every action
  bool stochastic_rounding = false;  ///< of the working copies of weights in bf16, with bits that depend on (seed, step, name, element)
  CudaGraphs cuda_graphs = CudaGraphs::off;
  Tuning tuning = Tuning::quick;  ///< of what CUDA devices run, before the first step; `off` takes nothing of earlier tuning either
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  std::shared_ptr<Group> group{};     ///< the ranks of the job, which share the plan's devices (DeviceRanks); null for one process
  std::string config{};               ///< what decides the answer beside plan and model, as text: ranks must have it in common
  bool allow_other_hardware = false;  ///< ranks may have other instruction sets: bits then depend on which rank has which stage
  /// Asked at the end of each step and evaluation, of every rank. What it throws comes out of step() or evaluate() as it is, when all is
  /// done: the step counts (steps_done), here and on the other ranks, and the trainer goes on. A save belongs after step(), which returns the
  /// wish of all: from within a run, here as in Batch::load, the trainer refuses to be read, saved, stepped and written to.
  std::function<Wish()> wish{};
};

struct StepResult {
  double loss = 0;           ///< weighted mean over the mini-batch, before the update
  double gradient_norm = 0;  ///< global, before clipping
  double learning_rate = 0;
  double seconds = 0;                       ///< wall time of the step; the devices' clocks on meta
  double bubble = 0;                        ///< measured: 1 - mean busy time of the devices / step time
  double flops = 0;                         ///< operations of the step, recomputation included
  bool was_skipped = false;                 ///< the gradient was not finite: no weight has changed
  std::vector<int64_t> peak_bytes{};        ///< by device, since it was last reset
  Wish wish{};                              ///< of all ranks
  int64_t bytes_between_ranks = 0;          ///< of tensors, as they came
  int64_t planned_bytes_between_ranks = 0;  ///< as the step's program sends them; 0 for one process, and where it could not be counted
};

struct EvaluationResult {
  double loss_sum = 0;                    ///< summed over the targets of the batch
  double weight = 0;                      ///< of the targets
  Wish wish;                              ///< of all ranks
  Tensor output;                          ///< the graph's first output (logits), a row a sample, on the host; when it was asked for
  std::map<std::string, Tensor> outputs;  ///< all of them, by the names of their nodes
};

/// One parameter with all that a checkpoint keeps of it; of several replicas with a sharded optimizer the part of it that one steps, as a
/// list. The tensors are the trainer's own: writing to them changes the model.
struct ParameterState {
  std::string name;                      ///< "node.parameter", whatever the partition
  Tensor value;                          ///< the f32 master
  std::vector<Tensor> optimizer_states;  ///< in the order of Optimizer::states_of()
};

/// All that a checkpoint keeps, as it is here, in the order of names and elements. The tensors are the trainer's own: writing to them changes the model.
struct StateParts {
  std::vector<StatePart> model;     ///< masters, and running statistics ("node.running_mean"), of all replicas that are here
  std::vector<StatePart> states;    ///< of the optimizer: "node.parameter/m"
  std::vector<StatePart> averages;  ///< exponential moving averages of all that is in `model`; none without Optimizer::ema
};

/// Trains a graph by running its plan's program: one worker thread a device.
///
/// Graph, plan and optimizer are copied (Optimizer::clone): what is changed in them later has no part in the training. A learning rate that
/// is to follow what a training shows is a LearningRate::function.
///
/// Over several ranks each has a trainer of the same graph, plan, optimizer and options, which holds its own devices' stages alone. They call
/// together whatever is not const, and weights_hash(), and get the same results. Each is given the whole mini-batch, the same one, and loads
/// its part of it; the first sample of each input is compared. Before a run they agree on it: what one of them throws, as where it cannot load
/// its part of the mini-batch, all throw, naming the rank, and the trainers go on.
///
/// In bf16, forward and backward read bf16 copies of the weights and make bf16 activations; masters, their gradients and the optimizer's
/// states stay f32 (docs/design.md, "Precision").
/// For a given M, the loss, gradients and weights are the same bits for every partition, number of devices, schedule and
/// rematerialization (docs/design.md, promise 1).
/// On CUDA devices the first step is preceded by a run of its program that times algorithms (TuningScope) and changes nothing, unless a
/// checkpoint's choices for these GPUs were adopted. From then on all ranks have the same choices, and nothing more is tried.
/// Every program, of a step or an evaluation with any number of samples and micro-batches, is counted and held against the devices' budgets
/// before it runs (PlanPrograms). A new shape of a mini-batch costs a run on meta devices, and every mini-batch is asked for one more sample
/// of each input, which shows its shape.
/// Threads  one caller.
/// Errors   OutOfMemory with the words of Prediction::reason, before anything runs, when a budget does not hold a program.
///          What a stage throws comes out of step() with node or action, stage and micro-batch in its message; the other devices are
///          stopped, and the trainer's parameters are as before the step. Unless a device had begun to change them: then they may be of
///          two steps, and the trainer refuses to go on, to evaluate and to be saved until it is restored (require_whole). CommError when
///          a wait or an action takes longer than the timeout. HangError when a device's thread then does not come back, as from a kernel
///          that never ends. Nothing can end that thread but the end of the process, and it may still read and write what the trainer
///          has: so the trainer refuses everything that touches weights (require_whole, restore), its destructor frees nothing and waits
///          for nothing, and what is left to do is to note the error and end the process, best with _exit. Other trainers on other
///          devices go on. DivergenceError when the gradient is not finite, naming the first node that made such a number.
class Trainer {
 public:
  /// Errors  UsageError for stochastic rounding in a precision that rounds no weights, and a learning rate that is not valid.
  Trainer(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, TrainerOptions options);
  Trainer(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer);
  ~Trainer();

  /// Errors  Error saying what failed and when, where weights may be of two steps: publish_parameters() makes the trainer whole. HangError
  ///         after a HangError, for ever; so do all that give or take weights.
  void require_whole() const;

  /// One optimizer step over a mini-batch. `micro_batches` = 0 takes the plan's M, or of fewer samples one each; any other number from 1 to
  /// the samples is legal at any step. Errors  UsageError after kMostSteps steps.
  StepResult step(const Batch& batch, int micro_batches = 0);
  /// The loss of a batch in evaluation mode, and if wanted the predictions; legal between any two steps. With Optimizer::ema it is that
  /// of averages(), which take the place of the weights without further memory. `stop` is asked before each node, from any device's thread; over
  /// several ranks once on each, before anything runs: when one gives true, all of them throw.
  /// Errors  StoppedError when `stop` gave true: the trainer goes on as if the evaluation had never begun.
  EvaluationResult evaluate(const Batch& batch, bool with_output = false, const std::function<bool()>& stop = {});

  /// Goes on by another plan, between any two steps: all that a checkpoint keeps goes over exactly, so the answer stays the same bits. The
  /// devices' memory is freed before it is taken again; meanwhile the host holds a copy of what goes over.
  /// Errors  UsageError for a plan that is not of this model, with other micro-batches, another precision or another kind of device, and for
  ///         devices that only count. When the new plan's stages cannot be made, what failed, and the trainer goes on by its former plan;
  ///         it refuses everything from then on where that fails, too.
  void move_to(Plan plan);

  const layers::Graph& graph() const;
  const Plan& plan() const;
  const Optimizer& optimizer() const;
  /// The ranks of the job; null for one process.
  Group* group() const;
  /// Steps done so far: decides learning rate and random masks. A checkpoint restores it.
  int64_t steps_done() const;
  /// Of them those that changed nothing (OnNonfinite::skip). They count in the learning rate's schedule and the random masks, and in what
  /// Optimizer::Update::step counts, such as Adam's correction of averages, they do not. A checkpoint restores this number too.
  int64_t steps_skipped() const;
  /// Errors  UsageError for steps below 0 or above kMostSteps, and for more skipped ones than steps.
  void set_steps_done(int64_t steps, int64_t skipped = 0);
  /// The algorithms that its GPUs run, which a checkpoint keeps, so that a resumed training goes on with the same bits; none on other devices.
  GpuChoices gpu_choices() const;
  /// Takes those of a checkpoint, before anything runs. Does nothing on other devices.
  void adopt_choices(const GpuChoices& choices);

  /// All parameters that are here, in name order, each tied one once; of several replicas every one's.
  std::vector<ParameterState> parameters() const;
  StateParts state_parts() const;
  /// All that the model is, by name: the masters, and the running statistics. Of one replica the tensors are the trainer's own, those that
  /// are here; of several they are whole copies on the host, and all ranks call it together.
  std::map<std::string, Tensor> model() const;
  /// The exponential moving averages of all that is in model(), by the same names and under the same rules; empty without Optimizer::ema.
  std::map<std::string, Tensor> averages() const;
  /// The optimizer's states as "node.parameter/m", under the same rules.
  std::map<std::string, Tensor> optimizer_states() const;
  /// Names of the graph's inputs that the stages of this rank read.
  std::vector<std::string> inputs_here() const;
  /// Which samples of a mini-batch its replicas read, for a loader: valid for the plan that the trainer has now, also when it is gone.
  SamplesHere samples_here() const;
  /// Bytes of every parameter's copy and of all running statistics on every device, as the devices count them.
  std::vector<Placement> placements() const;
  /// Until publish_parameters() the trainer refuses to step, to evaluate and to be saved: parameters() are written from `source`, which may
  /// fail midway.
  void begin_replacing(const std::string& source);
  /// Makes all working copies anew from parameters(), as step number steps_done() did, tied ones at every use; call after writing to
  /// parameters(), to all of them where require_whole() throws.
  void publish_parameters();
  /// XXH3-128 over the bytes of model() of all ranks in name order, as 32 hex digits. All ranks call it together.
  /// Errors  UsageError on meta devices, which hold no values.
  std::string weights_hash() const;

  /// Actions of the last step, for traces and reports: of all devices on the root, elsewhere of those that are here.
  const Trace& trace() const;
  const GraphChoice& cuda_graphs() const;
  /// What runs the programs: for tests.
  Executor& executor();

 private:
  struct State;
  std::map<std::string, Tensor> whole(const std::vector<StatePart>& parts) const;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::parallel
