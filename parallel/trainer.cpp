#include "parallel/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "core/file/hash.h"
#include "core/ops/copy.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/plan/check.h"
#include "parallel/plan/plan_programs.h"

namespace sluice::parallel {

struct Trainer::State {
  State(const layers::Graph& model, Plan chosen, const Optimizer& rule, TrainerOptions wanted)
      : graph(model),
        plan(checked(std::move(chosen), graph)),
        optimizer(rule.clone()),
        options(wanted),
        topology(topology_of(graph)),
        common(common_options()) {
    require(!options.stochastic_rounding || plan.precision == Precision::bf16,
            "train.stochastic_rounding: needs train.precision = \"bf16\", got ", name_of(plan.precision), "; switch one of them");
    optimizer->rate.validate();
    require(optimizer->ema >= 0 && optimizer->ema < 1, "optimizer.ema: needs a decay in [0, 1), got ", optimizer->ema,
            "; 0 keeps no averages");
    make_executor();
  }

  void make_executor() {
    programs.emplace(graph, topology, plan, *optimizer, common);
    graphs = GraphChoice(options.cuda_graphs, plan.devices[0]->kind() == DeviceKind::cuda);
    const auto placement = device_of_stage(plan);
    const Layout layout{topology, plan.partition.segments(), placement, plan.rematerialize, static_cast<int>(plan.devices.size()), true};
    executor = std::make_unique<Executor>(graph, layout, plan.devices, common, options.timeout_seconds);
  }

  /// The memory of the former executor is free before the next one takes its own.
  void change_plan(Plan other) {
    failure =
        "trainer: the stages of a plan could not be made, and those of the plan before are gone; make a new trainer from a checkpoint";
    executor.reset();
    plan = std::move(other);
    shows_averages = false;
    make_executor();
    failure.clear();
  }

  static Plan checked(Plan plan, const layers::Graph& graph) {
    require_valid(plan, graph);
    return plan;
  }

  StageOptions common_options() const {
    StageOptions all = stage_options(plan, *optimizer);
    all.seed = options.seed;
    all.stochastic_rounding = options.stochastic_rounding;
    return all;
  }

  /// Weights are the devices' to use when a thread has not come back.
  void require_reachable() const {
    require<Error>(executor != nullptr, failure);
    require<HangError>(!executor->is_abandoned(), failure);
  }

  double loss_weight(const Batch& batch) const {
    if (plan.devices[0]->kind() == DeviceKind::meta) return 1;
    const int node = graph.loss_node();
    std::vector<Tensor> inputs;
    for (int value : graph.nodes()[node].inputs)
      inputs.push_back(graph.node_of(value) < 0 ? batch.load(graph.inputs()[value].name, 0, batch.samples) : Tensor());
    return graph.nodes()[node].module->loss_weight(inputs);
  }

  RunContext context(const Batch& batch, const PlanPrograms::Use& use) const {
    RunContext run;
    run.batch = &batch;
    run.first_sample = micro_batch_bounds(batch.samples, use.micro_batches);
    run.training = use.training;
    run.keeps_output = use.keeps_output;
    run.step = static_cast<uint32_t>(steps_done);
    return run;
  }

  /// Lets evaluation read the moving averages and training the weights. Nothing is done when they are shown already.
  void show_averages(bool wanted) {
    if (optimizer->ema == 0 || shows_averages == wanted) return;
    for (auto& stage : executor->stages()) wanted ? stage->show_averages() : stage->write_working(steps_done);
    share_tied();
    shows_averages = wanted;
  }

  /// Copies what owners show to where else a parameter is used.
  void share_tied() {
    std::map<int, Tensor> owned;
    for (const auto& stage : executor->stages())
      for (const auto& parameter : stage->parameters())
        if (parameter.owned) owned[parameter.index] = stage->shown(parameter);
    for (const auto& stage : executor->stages())
      for (const auto& parameter : stage->parameters())
        if (!parameter.owned) copy(owned.at(parameter.index), parameter.working);
  }

  RunResult run(const Program& program, const RunContext& context, const StepContext& step) {
    try {
      return executor->run(program, context, step);
    } catch (const HangError&) {
      failure = join("trainer: a device never came back from ", context.training ? "step " : "an evaluation before step ", steps_done + 1,
                     ", so weights may neither be read nor written; end the process and resume from a checkpoint");
      throw;
    } catch (const std::exception& error) {
      if (executor->failed_midway())
        failure =
            join("trainer: step ", steps_done + 1, " failed when a device had begun to change its weights, which may be of two steps now; ",
                 "restore a checkpoint, or make a new trainer. The step failed with: ", error.what());
      throw;
    }
  }

  /// Where the first number that is not finite comes from: the step runs again, without what changes weights, and every node is watched.
  std::string first_nonfinite(const Program& program, RunContext context, const StepContext& step) {
    watched = program;
    for (auto& actions : watched.devices) std::erase_if(actions, changes_weights);
    context.is_watched = true;
    context.cuda_graphs = false;
    try {
      run(watched, context, step);
    } catch (const DivergenceError& error) {
      return join(", first in ", error.what());
    } catch (const HangError&) {
      throw;
    } catch (const std::exception&) {  // such as no room to watch in: the error that is explained counts for more
    }
    return "";
  }

  void require_finite(const Program& program, const RunContext& context, const StepContext& step, double norm) {
    if (std::isfinite(norm) || options.on_nonfinite == OnNonfinite::skip) return;
    throw DivergenceError(join("training: the gradient of step ", step.update.step, " is not finite",
                               first_nonfinite(program, context, step),
                               "; no weight was changed. Lower optimizer.lr, set optimizer.clip, lengthen optimizer.warmup, or leave such "
                               "steps out with train.on_nonfinite = \"skip\""));
  }

  layers::Graph graph;
  Plan plan;
  std::unique_ptr<Optimizer> optimizer;
  TrainerOptions options;
  Topology topology;
  const StageOptions common;
  std::optional<PlanPrograms> programs;        ///< of `plan`
  GraphChoice graphs{CudaGraphs::off, false};  ///< that make_executor() makes
  std::unique_ptr<Executor> executor;          ///< null when neither of two plans' stages could be made
  Program watched;                             ///< the last one that was searched for a number that is not finite
  int64_t steps_done = 0;
  bool shows_averages = false;
  std::string failure;  ///< why the weights may be of two steps; empty when they are of one
  Trace trace;
};

Trainer::Trainer(const layers::Graph& graph, Plan plan, const Optimizer& optimizer, TrainerOptions options)
    : state_(std::make_unique<State>(graph, std::move(plan), optimizer, options)) {}

/// A thread that never comes back uses its trainer's state for ever.
Trainer::~Trainer() {
  if (!state_->executor || !state_->executor->is_abandoned()) return;
  static std::mutex mutex;
  static auto& in_use = *new std::vector<std::unique_ptr<State>>;
  std::lock_guard lock(mutex);
  in_use.push_back(std::move(state_));
}

void Trainer::require_whole() const {
  state_->require_reachable();
  require<Error>(state_->failure.empty(), state_->failure);
}

StepResult Trainer::step(const Batch& batch, int micro_batches) {
  require_whole();
  const auto use = state_->programs->step(shape_of(state_->graph, batch), micro_batches);
  RunContext run = state_->context(batch, use);
  const double weight = state_->loss_weight(batch);
  require(weight > 0, "step: needs a mini-batch with at least one target that counts, got a total weight of ", weight);
  run.loss_scale = 1 / weight;
  const Program& program = state_->programs->get(use);
  state_->show_averages(false);
  StepContext step;
  run.cuda_graphs = state_->graphs.next();
  step.optimizer = state_->optimizer.get();
  step.update = {state_->optimizer->rate.at(state_->steps_done), state_->steps_done + 1, {{}, state_->options.clip}};
  RunResult result = state_->run(program, run, step);
  state_->require_finite(program, run, step, result.gradient_norm);
  ++state_->steps_done;
  state_->trace = std::move(result.trace);
  state_->graphs.note(state_->trace.seconds);
  return {result.loss,
          result.gradient_norm,
          step.update.learning_rate,
          state_->trace.seconds,
          state_->trace.bubble(),
          result.flops,
          !std::isfinite(result.gradient_norm)};
}

EvaluationResult Trainer::evaluate(const Batch& batch, bool with_output, const std::function<bool()>& stop) {
  require_whole();
  const auto use = state_->programs->evaluation(shape_of(state_->graph, batch), with_output);
  RunContext run = state_->context(batch, use);
  run.stop = stop;
  const Program& program = state_->programs->get(use);
  state_->show_averages(true);
  const RunResult result = state_->run(program, run, {});
  return {result.loss, state_->loss_weight(batch), result.output};
}

namespace {

using Tensors = std::map<std::string, Tensor>;

Tensors copies(const Tensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) copy(tensor, copies[name] = empty(tensor.shape(), tensor.dtype()));
  return copies;
}

void put(const Tensors& values, const Tensors& places) {
  for (const auto& [name, place] : places) copy(values.at(name), place);
}

void require_same_answer(const Plan& now, const Plan& next) {
  require(next.micro_batches == now.micro_batches, "Trainer::move_to: needs a plan of ", now.micro_batches, " micro-batches, got ",
          next.micro_batches, "; they decide the bits");
  require(next.precision == now.precision, "Trainer::move_to: needs a plan in ", name_of(now.precision), ", got ", name_of(next.precision),
          "; it decides the bits");
  const DeviceKind from = now.devices[0]->kind(), to = next.devices[0]->kind();
  require(from == to && from != DeviceKind::meta, "Trainer::move_to: needs devices that compute, all of one kind, got ",
          now.devices[0]->name(), " and ", next.devices[0]->name(), "; make a new trainer");
}

}  // namespace

void Trainer::move_to(Plan plan) {
  require_whole();
  plan = State::checked(std::move(plan), state_->graph);
  require_same_answer(state_->plan, plan);
  auto kept = checkpoint_layout::contents_of(*this);
  for (Tensors* tensors : {&kept.model, &kept.states, &kept.averages}) *tensors = copies(*tensors);
  const auto go_on = [&](const Plan& by) {
    state_->change_plan(by);
    const auto places = checkpoint_layout::contents_of(*this);
    put(kept.model, places.model);
    put(kept.states, places.states);
    put(kept.averages, places.averages);
    publish_parameters();
  };
  const Plan before = state_->plan;
  try {
    go_on(plan);
  } catch (...) {
    go_on(before);
    throw;
  }
}

const layers::Graph& Trainer::graph() const { return state_->graph; }
const Plan& Trainer::plan() const { return state_->plan; }
const Optimizer& Trainer::optimizer() const { return *state_->optimizer; }
int64_t Trainer::steps_done() const { return state_->steps_done; }
void Trainer::set_steps_done(int64_t steps) { state_->steps_done = steps; }
const Trace& Trainer::trace() const { return state_->trace; }
const GraphChoice& Trainer::cuda_graphs() const { return state_->graphs; }
Executor& Trainer::executor() { return *state_->executor; }

std::vector<ParameterState> Trainer::parameters() const {
  state_->require_reachable();
  std::vector<ParameterState> all;
  for (const auto& stage : state_->executor->stages())
    for (const auto& parameter : stage->parameters())
      if (parameter.owned) all.push_back({state_->graph.parameters()[parameter.index].name, parameter.master, parameter.states});
  std::ranges::sort(all, {}, &ParameterState::name);
  return all;
}

std::map<std::string, Tensor> Trainer::model() const {
  std::map<std::string, Tensor> all;
  for (const auto& parameter : parameters()) all[parameter.name] = parameter.value;
  for (const auto& stage : state_->executor->stages())
    for (const auto& statistics : stage->statistics().entries()) {
      const auto& description = state_->graph.statistics()[statistics.index];
      all[description.mean_name()] = statistics.running.mean;
      all[description.variance_name()] = statistics.running.variance;
    }
  return all;
}

std::map<std::string, Tensor> Trainer::averages() const {
  state_->require_reachable();
  std::map<std::string, Tensor> all;
  if (state_->optimizer->ema == 0) return all;
  for (const auto& stage : state_->executor->stages()) {
    for (const auto& parameter : stage->parameters())
      if (parameter.owned) all[state_->graph.parameters()[parameter.index].name] = parameter.average;
    for (const auto& statistics : stage->statistics().entries()) {
      const auto& description = state_->graph.statistics()[statistics.index];
      all[description.mean_name()] = statistics.average.mean;
      all[description.variance_name()] = statistics.average.variance;
    }
  }
  return all;
}

std::vector<Placement> Trainer::placements() const { return parallel::placements(state_->graph, *state_->executor); }

void Trainer::publish_parameters() {
  state_->require_reachable();
  for (const auto& stage : state_->executor->stages()) stage->write_working(state_->steps_done);
  state_->share_tied();
  state_->shows_averages = false;
  state_->failure.clear();
}

std::string Trainer::weights_hash() const {
  Hash hash;
  for (const auto& [name, tensor] : model()) {
    const Tensor value = tensor.to(default_device());
    hash.add(value.data(), static_cast<size_t>(value.bytes()));
  }
  return hash.text();
}

}  // namespace sluice::parallel
