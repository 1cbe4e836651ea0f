#include "parallel/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <ranges>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "core/cuda/cuda.h"
#include "core/keep_to_the_end.h"
#include "core/ops/copy.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/group/collectives.h"
#include "parallel/plan/check.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/plan/plan_programs.h"
#include "parallel/program/program_bytes.h"
#include "parallel/run/agreed_choices.h"
#include "parallel/run/agreement.h"
#include "parallel/run/certificate.h"
#include "parallel/run/model_hash.h"
#include "parallel/run/shared_weights.h"

namespace sluice::parallel {

namespace {

/// Of the same class: one that inherits clone() would train by the rule of the class that it inherits from.
std::unique_ptr<Optimizer> clone_of(const Optimizer& rule) {
  std::unique_ptr<Optimizer> clone = rule.clone();
  const Optimizer* made = clone.get();
  require(made != nullptr && typeid(*made) == typeid(rule), "Optimizer::clone: needs another optimizer of the class of this one, '",
          rule.name(), "', got ", made ? join("one of another class, '", made->name(), "'") : "a null pointer",
          "; define it as return std::make_unique<YourClass>(*this)");
  return clone;
}

}  // namespace

struct Trainer::State {
  State(const layers::Graph& model, Plan chosen, const Optimizer& rule, TrainerOptions wanted)
      : graph(model),
        plan(checked(std::move(chosen), graph)),
        optimizer(clone_of(rule)),
        options(std::move(wanted)),
        group(options.group && options.group->size() > 1 ? options.group.get() : nullptr),
        topology(topology_of(graph)),
        common(common_options()) {
    require(!options.stochastic_rounding || plan.precision == Precision::bf16,
            "TrainerOptions::stochastic_rounding (train.stochastic_rounding): needs a plan in bf16 (train.precision), got ",
            name_of(plan.precision), "; switch one of them");
    require_timeout(options.timeout_seconds, "TrainerOptions::timeout_seconds");
    optimizer->rate.validate();
    require(optimizer->ema >= 0 && optimizer->ema < 1, "Optimizer::ema (optimizer.ema): needs a decay in [0, 1), got ", optimizer->ema,
            "; 0 keeps no averages");
    require(options.clip >= 0, "TrainerOptions::clip (optimizer.clip): needs a norm of at least 0, which clips nothing, got ",
            options.clip);
    std::vector<std::string> names;
    for (const auto& parameter : graph.parameters()) names.push_back(parameter.name);
    optimizer->require_groups(names);
    if (group) require_same_training();
    make_executor();
    if (computes_on_gpus() && options.tuning == Tuning::off) adopt({});  // and nothing of the file
  }

  bool computes_on_gpus() const { return plan.devices[0]->kind() == DeviceKind::cuda; }

  /// As the root.
  void require_same_training() {
    const DeviceRanks ranks(static_cast<int>(plan.devices.size()), *group);
    std::vector<DevicePtr> here;
    for (int device = 0; device < ranks.devices(); ++device)
      if (ranks.is_here(device)) here.push_back(plan.devices[device]);
    const Certificate mine = make_certificate(encode(plan), graph, options.config, here);
    const Certificate root = decode_certificate(broadcast(*group, group->is_root() ? encode(mine) : ""));
    together(group, [&] {
      const std::string differs = difference(mine, root, options.allow_other_hardware);
      require(differs.empty(), differs);
    });
  }

  void make_executor() {
    programs.emplace(graph, topology, plan, common, std::vector<DeviceSpeed>(), group);
    graphs = GraphChoice(options.cuda_graphs, plan.devices[0]->kind() == DeviceKind::cuda);
    const auto placement = device_of_stage(plan);
    executor = std::make_unique<Executor>(graph, layout_of(topology, plan, placement), plan.devices, common, options.timeout_seconds,
                                          options.group);
  }

  /// In a replica.
  bool is_here(int node) const {
    const Layout layout = executor->layout();
    const auto is_device_here = [&](int replica) {
      return executor->ranks().is_here(layout.device_of_stage[layout.stage_of(node, replica)]);
    };
    return std::ranges::any_of(std::views::iota(0, plan.replication.replicas), is_device_here);
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
  void require_idle() const {
    require(!is_running,
            "trainer: needs its step or evaluation to be over before it is read, saved, stepped or written to, got a call from within one, "
            "as from TrainerOptions::wish or Batch::load; make the call after it: a wish asks for a checkpoint with Wish::save");
  }

  /// Weights are the devices' to use when a thread has not come back.
  void require_reachable() const {
    require_idle();
    require<Error>(executor != nullptr, failure);
    require<HangError>(!executor->is_abandoned(), failure);
  }

  Tensor whole_input(const Batch& batch, const BatchShape& shape, const std::string& name) const {
    Tensor loaded = load(batch, name, 0, batch.samples);
    require_planned_shape(shape, name, 0, loaded);
    return loaded;
  }

  /// None where the loss is not computed.
  std::vector<double> loss_weights(const Batch& batch, const BatchShape& shape) const {
    if (plan.devices[0]->kind() == DeviceKind::meta) return {1};
    if (!is_here(graph.loss_node())) return {};
    const int node = graph.loss_node();
    std::vector<Tensor> inputs;
    for (int value : graph.nodes()[node].inputs)
      inputs.push_back(graph.node_of(value) < 0 ? whole_input(batch, shape, graph.inputs()[value].name) : Tensor());
    return graph.nodes()[node].module->loss_weights(inputs, batch.samples);
  }

  RunContext context(const Batch& batch, const PlanPrograms::Use& use) {
    RunContext run;
    run.batch = &batch;
    run.shape = use.shape;
    run.first_sample = micro_batch_bounds(batch.samples, use.micro_batches);
    run.training = use.training;
    run.keeps_output = use.keeps_output;
    run.step = static_cast<uint32_t>(steps_done);
    run.loss_weights = loss_weights(batch, use.shape);
    if (use.training && is_here(graph.loss_node())) {
      require(run.loss_weight() > 0, "step: needs a mini-batch with at least one target that counts, got a total weight of ",
              run.loss_weight());
      run.loss_scale = 1 / run.loss_weight();
    }
    if (options.wish) run.wish = [this] { return ask(); };
    return run;
  }

  StepContext next_step() const { return {optimizer.get(), {optimizer->rate.at(steps_done), steps_done + 1, {{}, options.clip}}}; }

  struct Prepared {
    PlanPrograms::Use use;
    RunContext run;
  };

  /// On all ranks or none: what one of them throws all throw, as a rank that went on alone would be a run ahead of the others.
  Prepared prepare(const Batch& batch, const std::function<PlanPrograms::Use(BatchShape)>& use_of) {
    Prepared prepared;
    const auto work = [&] {
      prepared.use = use_of(shape_of(graph, batch));
      prepared.run = context(batch, prepared.use);
      return group ? description(prepared.use) : "";
    };
    together_alike(group, work, executor->timeout_seconds());
    return prepared;
  }

  std::string description(const PlanPrograms::Use& use) const {
    std::string text = join(use.training ? "step " : "an evaluation before step ", steps_done + 1, " of ", use.shape.samples,
                            " samples in ", use.micro_batches, " micro-batches", use.keeps_output ? ", with output" : "");
    for (const auto& [name, input] : use.shape.inputs) text += join(", ", name, ' ', name_of(input.dtype), ' ', input.sample_shape);
    return text;
  }

  /// By then all devices have done their work: an error of the user's is no error of the run, which ends on all ranks.
  Wish ask() {
    error_of_wish = nullptr;
    try {
      return options.wish();
    } catch (...) {
      error_of_wish = std::current_exception();
      return {};
    }
  }

  /// Once the run that asked is over and noted.
  void rethrow_error_of_wish() {
    if (error_of_wish) std::rethrow_exception(std::exchange(error_of_wish, nullptr));
  }

  /// Lets evaluation read the moving averages and training the weights. Nothing is done when they are shown already.
  void show_averages(bool wanted) {
    if (optimizer->ema == 0 || shows_averages == wanted) return;
    shows_averages.reset();  // some stages show one and some the other, where this fails midway
    for (auto& stage : executor->stages()) wanted ? stage->show_averages() : stage->write_working(steps_done);
    share_weights(graph, *executor, group);
    shows_averages = wanted;
  }

  /// Makes the working copies anew, with the rounding of the last step.
  void write_copies() {
    for (const auto& stage : executor->stages()) stage->write_working(steps_done);
    share_weights(graph, *executor, group);
  }

  /// A step that was skipped wrote no copies: theirs is the rounding of the step before, and it would be another's wherever they are made anew.
  void note_step(double norm) {
    ++steps_done;
    if (!std::isfinite(norm) && options.stochastic_rounding) write_copies();
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

  /// A step that changes nothing: all its actions, without graphs.
  RunResult rehearse(const Program& program, RunContext context, StepContext step) {
    context.cuda_graphs = false;
    context.wish = {};
    step.changes_nothing = true;
    return run(program, context, step);
  }

  bool wants_tuning() const {
    const auto is_tuned = [&](const DevicePtr& device) { return has_choices_for(describe_gpu(*device)); };
    return options.tuning != Tuning::off && !(has_adopted && std::ranges::all_of(plan.devices, is_tuned));
  }

  /// Agreement itself waits for a rank as long as that lives.
  void require_all_ranks() {
    try {
      barrier(*group, executor->timeout_seconds());
    } catch (const std::exception& failure) {
      group->abort(failure.what());
      throw;
    }
  }

  /// Before the first step on GPUs: what the step needs is tried, and all ranks take the same choices.
  void settle_choices(const Program& program, const RunContext& context, const StepContext& step) {
    if (is_settled) return;
    if (computes_on_gpus()) {
      if (group) require_all_ranks();
      if (any_rank(group, wants_tuning())) tune(program, context, step);
      adopt(agreed_choices(group, sluice::gpu_choices()));
    }
    is_settled = true;
  }

  /// Devices wait for each other's trials.
  void tune(const Program& program, const RunContext& context, const StepContext& step) {
    const TuningLimits limits = limits_of(options.tuning);
    std::optional<TuningScope> scope;
    if (options.tuning != Tuning::off) scope.emplace(limits);  // else another rank wants it
    const double timeout = executor->timeout_seconds();
    executor->set_timeout_seconds(timeout + limits.seconds);
    try {
      rehearse(program, context, step);
    } catch (...) {
      executor->set_timeout_seconds(timeout);
      throw;
    }
    executor->set_timeout_seconds(timeout);
  }

  /// Where the first number that is not finite comes from: the step runs again, and every node is watched.
  std::string first_nonfinite(const Program& program, RunContext context, const StepContext& step) {
    if (group) return " (one process would say in which node first)";  // a failure on one rank ends the job
    context.is_watched = true;
    try {
      rehearse(program, context, step);
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
    const DivergenceError error(
        join("training: the gradient of step ", step.update.step, " is not finite", first_nonfinite(program, context, step),
             "; no weight was changed. Lower the learning rate (optimizer.lr), set TrainerOptions::clip (optimizer.clip), lengthen the "
             "warm-up (optimizer.warmup), or leave such steps out with OnNonfinite::skip (train.on_nonfinite = \"skip\")"));
    if (group) on_root(group, [&] { throw error; });
    throw error;
  }

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
  int64_t steps_done = 0;
  std::optional<bool> shows_averages = false;
  std::exception_ptr error_of_wish;  ///< of the run that has just ended
  std::string failure;               ///< why the weights may not belong together; empty when they do
  Trace trace;
};

Trainer::Trainer(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, TrainerOptions options)
    : state_(std::make_unique<State>(graph, plan, optimizer, options)) {}

Trainer::Trainer(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer)
    : Trainer(graph, plan, optimizer, TrainerOptions{}) {}

/// A thread that never comes back uses its trainer's state for ever.
Trainer::~Trainer() {
  if (state_->executor && state_->executor->is_abandoned()) keep_to_the_end(std::move(state_));
}

void Trainer::require_whole() const {
  state_->require_reachable();
  require<Error>(state_->failure.empty(), state_->failure);
}

StepResult Trainer::step(const Batch& batch, int micro_batches) {
  require_whole();
  const State::Running running(*state_);
  require(state_->steps_done < kMostSteps, "step: needs fewer than ", kMostSteps, " steps done, got ", state_->steps_done,
          "; begin a new training with these weights (parallel::initialize, --init)");
  require(micro_batches >= 0, "step: needs a number of micro-batches from 1 on, or 0 for the plan's, got ", micro_batches);
  StepContext step;
  auto [use, run] = state_->prepare(batch, [&](BatchShape shape) {
    step = state_->next_step();
    return state_->programs->step(std::move(shape), micro_batches);
  });
  const Program& program = state_->programs->get(use);
  state_->show_averages(false);
  run.cuda_graphs = state_->graphs.next();
  state_->settle_choices(program, run, step);
  RunResult result = state_->run(program, run, step);
  state_->require_finite(program, run, step, result.gradient_norm);
  state_->note_step(result.gradient_norm);
  state_->trace = std::move(result.trace);
  state_->graphs.note(state_->trace.seconds);
  state_->rethrow_error_of_wish();
  return {result.loss,
          result.gradient_norm,
          step.update.learning_rate,
          state_->trace.seconds,
          result.bubble,
          result.flops,
          !std::isfinite(result.gradient_norm),
          std::move(result.peak_bytes),
          result.wish,
          result.bytes_between_ranks,
          state_->group ? bytes_between_ranks(program, state_->executor->ranks().per_rank()) : 0};
}

EvaluationResult Trainer::evaluate(const Batch& batch, bool with_output, const std::function<bool()>& stop) {
  require_whole();
  const State::Running running(*state_);
  if (with_output) graph().output_node();  // throws where there is none
  auto [use, run] = state_->prepare(batch, [&](BatchShape shape) {
    require<StoppedError>(!state_->group || !stop || !stop(), "stopped, as was asked for");
    return state_->programs->evaluation(std::move(shape), with_output);
  });
  if (!state_->group) run.stop = stop;
  const Program& program = state_->programs->get(use);
  state_->show_averages(true);
  const RunResult result = state_->run(program, run, {});
  state_->rethrow_error_of_wish();
  require<StoppedError>(!state_->group || !stop || result.wish.signal == 0, "stopped, as a rank asked for");
  EvaluationResult evaluation{result.loss, result.loss_weight, result.wish, {}, {}};
  for (const auto& [node, output] : result.outputs) evaluation.outputs[graph().nodes()[static_cast<size_t>(node)].name] = output;
  if (!result.outputs.empty()) evaluation.output = result.outputs.at(graph().output_node());
  return evaluation;
}

namespace {

using Tensors = std::map<std::string, Tensor>;

Tensors copies(const Tensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) copy(tensor, copies[name] = empty(tensor.shape(), tensor.dtype()));
  return copies;
}

void require_same_answer(const Plan& now, const Plan& next) {
  require(next.micro_batches == now.micro_batches, "Trainer::move_to: needs a plan of ", now.micro_batches, " micro-batches, got ",
          next.micro_batches, "; they decide the bits");
  require(next.replication.fold_blocks == now.replication.fold_blocks, "Trainer::move_to: needs a plan of ", now.replication.fold_blocks,
          " fold blocks, got ", next.replication.fold_blocks, "; they decide the bits");
  require(next.precision == now.precision, "Trainer::move_to: needs a plan in ", name_of(now.precision), ", got ", name_of(next.precision),
          "; it decides the bits");
  const DeviceKind from = now.devices[0]->kind(), to = next.devices[0]->kind();
  require(from == to && from != DeviceKind::meta, "Trainer::move_to: needs devices that compute, all of one kind, got ",
          now.devices[0]->name(), " and ", next.devices[0]->name(), "; make a new trainer");
}

}  // namespace

void Trainer::move_to(Plan plan) {
  require_whole();
  require(!state_->group, "Trainer::move_to: needs one process, got ", state_->group ? state_->group->size() : 1,
          " ranks: stages do not move between ranks yet; save, and resume by the other plan");
  plan = State::checked(std::move(plan), state_->graph);
  require_same_answer(state_->plan, plan);
  auto kept = checkpoint_layout::contents_of(*this);
  for (Tensors* tensors : {&kept.model, &kept.states, &kept.averages}) *tensors = copies(*tensors);
  const auto go_on = [&](const Plan& by) {
    state_->change_plan(by);
    const StateParts places = state_parts();
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
Group* Trainer::group() const { return state_->group; }
int64_t Trainer::steps_done() const { return state_->steps_done; }
void Trainer::set_steps_done(int64_t steps) {
  state_->require_idle();
  require(steps >= 0 && steps <= kMostSteps, "Trainer::set_steps_done: needs a number from 0 to ", kMostSteps, ", got ", steps);
  state_->steps_done = steps;
}
GpuChoices Trainer::gpu_choices() const { return state_->computes_on_gpus() ? sluice::gpu_choices() : GpuChoices(); }
void Trainer::adopt_choices(const GpuChoices& choices) {
  if (!state_->computes_on_gpus() || choices.empty()) return;
  adopt(choices);
  state_->has_adopted = true;
}
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

StateParts Trainer::state_parts() const {
  state_->require_reachable();
  const layers::Graph& graph = state_->graph;
  StateParts parts;
  const auto add_statistics = [&](const StageStatistics::Entry& entry) {
    const auto& description = graph.statistics()[entry.index];
    const auto add = [&](std::vector<StatePart>& to, const layers::RunningStatistics& of) {
      const Shape shape{description.spec.channels};
      to.push_back({description.mean_name(), shape, {0, shape.elements()}, of.mean});
      to.push_back({description.variance_name(), shape, {0, shape.elements()}, of.variance});
    };
    add(parts.model, entry.running);
    if (entry.average.mean.defined()) add(parts.averages, entry.average);
  };
  for (const auto& stage : state_->executor->stages()) {
    for (const auto& parameter : stage->parameters()) {
      if (!parameter.owned) continue;
      const auto& description = graph.parameters()[parameter.index];
      const auto part = [&](const std::string& name, const Tensor& tensor) {
        return StatePart{name, description.spec.shape, parameter.range, tensor};
      };
      parts.model.push_back(part(description.name, parameter.master));
      const auto states = state_->optimizer->states_of(description.spec.shape);
      for (size_t i = 0; i < parameter.states.size(); ++i) {
        const Shape& shape = states[i].shape;
        parts.states.push_back({checkpoint_layout::state_name(description.name, states[i].name), shape,
                                shape == description.spec.shape ? parameter.range : ElementRange{0, shape.elements()},
                                parameter.states[i]});
      }
      if (state_->optimizer->ema > 0)
        parts.averages.push_back(part(description.name, description.frozen ? parameter.master : parameter.average));
    }
    std::ranges::for_each(stage->statistics().entries(), add_statistics);
  }
  const auto place = [](const StatePart& part) { return std::pair(std::string_view(part.name), part.elements.first); };
  for (auto* list : {&parts.model, &parts.states, &parts.averages}) std::ranges::stable_sort(*list, {}, place);
  return parts;
}

std::map<std::string, Tensor> Trainer::whole(const std::vector<StatePart>& parts) const {
  if (state_->plan.replication.replicas > 1) return whole_tensors(parts, state_->group);
  std::map<std::string, Tensor> tensors;
  for (const StatePart& part : parts) tensors[part.name] = part.tensor;
  return tensors;
}

std::map<std::string, Tensor> Trainer::model() const { return whole(state_parts().model); }
std::map<std::string, Tensor> Trainer::averages() const { return whole(state_parts().averages); }
std::map<std::string, Tensor> Trainer::optimizer_states() const { return whole(state_parts().states); }

std::vector<std::string> Trainer::inputs_here() const {
  const Topology& topology = state_->topology;
  std::vector<std::string> inputs;
  for (int input = 0; input < static_cast<int>(topology.inputs.size()); ++input) {
    const auto reads = [&](int node) { return state_->is_here(node) && std::ranges::count(topology.nodes[node].inputs, input) > 0; };
    if (std::ranges::any_of(std::views::iota(0, topology.node_count()), reads)) inputs.push_back(topology.inputs[input]);
  }
  return inputs;
}

SamplesHere Trainer::samples_here() const { return parallel::samples_here(graph(), plan(), state_->executor->ranks()); }

std::vector<Placement> Trainer::placements() const { return parallel::placements(state_->graph, *state_->executor); }

void Trainer::begin_replacing(const std::string& source) {
  state_->require_reachable();
  state_->failure = join("trainer: some of its weights are those of ", source,
                         ", which could not be taken to the end; restore another checkpoint, or make a new trainer");
}

void Trainer::publish_parameters() {
  state_->require_reachable();
  state_->write_copies();
  state_->shows_averages = false;
  state_->failure.clear();
}

std::string Trainer::weights_hash() const { return hash_of_model(state_->group, model()); }

}  // namespace sluice::parallel
