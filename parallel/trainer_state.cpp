#include "parallel/trainer_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <typeinfo>
#include <utility>

#include "core/cuda/cuda.h"
#include "core/file/hash.h"
#include "parallel/group/collectives.h"
#include "parallel/plan/check.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/agreed_choices.h"
#include "parallel/run/agreement.h"
#include "parallel/run/certificate.h"
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

Trainer::State::State(const layers::Graph& model, Plan chosen, const Optimizer& rule, TrainerOptions wanted)
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
  require(options.clip >= 0, "TrainerOptions::clip (optimizer.clip): needs a norm of at least 0, which clips nothing, got ", options.clip);
  std::vector<std::string> names;
  for (const auto& parameter : graph.parameters()) names.push_back(parameter.name);
  optimizer->require_groups(names);
  for (const auto& parameter : graph.parameters())
    if (!parameter.frozen) optimizer->require_states(parameter.spec.shape);
  if (group) require_same_training();
  make_executor();
  if (computes_on_gpus() && options.tuning == Tuning::off) adopt({});  // and nothing of the file
}

void Trainer::State::require_same_training() {
  const DeviceRanks ranks(static_cast<int>(plan.devices.size()), *group);
  std::vector<DevicePtr> here;
  for (int device = 0; device < ranks.devices(); ++device)
    if (ranks.is_here(device)) here.push_back(plan.devices[device]);
  Certificate mine = make_certificate(encode(plan), graph, options.config, here);
  mine.settings = settings();
  const Certificate root = decode_certificate(broadcast(*group, group->is_root() ? encode(mine) : ""));
  together(group, [&] {
    const std::string differs = difference(mine, root, options.allow_other_hardware);
    require(differs.empty(), differs);
  });
}

std::string Trainer::State::settings() const {
  std::string text =
      fmt::format("seed {}, clip {}, {} with averages of decay {}", options.seed, options.clip, optimizer->name(), optimizer->ema);
  for (const auto& [setting, value] : optimizer->settings()) text += fmt::format(", {} {}", setting, value);
  for (const std::string& state : optimizer->state_names()) text += ", state " + state;
  for (const auto& [names, own] : optimizer->groups())
    text += fmt::format(", group '{}' with lr {} and weight_decay {}", names, own.lr.value_or(-1), own.weight_decay.value_or(-1));
  if (options.stochastic_rounding) text += ", stochastic rounding";
  if (options.on_nonfinite == OnNonfinite::skip) text += ", steps skipped that are not finite";
  return text;
}

void Trainer::State::make_executor() {
  programs.emplace(graph, topology, plan, common, std::vector<DeviceSpeed>(), group);
  graphs = GraphChoice(options.cuda_graphs, plan.devices[0]->kind() == DeviceKind::cuda);
  const auto placement = device_of_stage(plan);
  executor =
      std::make_unique<Executor>(graph, layout_of(topology, plan, placement), plan.devices, common, options.timeout_seconds, options.group);
}

bool Trainer::State::is_here(int node) const {
  const Layout layout = executor->layout();
  const auto is_device_here = [&](int replica) {
    return executor->ranks().is_here(layout.device_of_stage[layout.stage_of(node, replica)]);
  };
  return std::ranges::any_of(std::views::iota(0, plan.replication.replicas), is_device_here);
}

void Trainer::State::change_plan(Plan other) {
  failure = "trainer: the stages of a plan could not be made, and those of the plan before are gone; make a new trainer from a checkpoint";
  executor.reset();
  plan = std::move(other);
  shows_averages = false;
  make_executor();
  failure.clear();
}

Plan Trainer::State::checked(Plan plan, const layers::Graph& graph) {
  require_valid(plan, graph);
  return plan;
}

StageOptions Trainer::State::common_options() const {
  StageOptions all = stage_options(plan, *optimizer);
  all.seed = options.seed;
  all.stochastic_rounding = options.stochastic_rounding;
  return all;
}

void Trainer::State::require_idle() const {
  require(!is_running,
          "trainer: needs its step or evaluation to be over before it is read, saved, stepped or written to, got a call from within one, "
          "as from TrainerOptions::wish or Batch::load; make the call after it: a wish asks for a checkpoint with Wish::save");
}

void Trainer::State::require_reachable() const {
  require_idle();
  require<Error>(executor != nullptr, failure);
  require<HangError>(!executor->is_abandoned(), failure);
}

Tensor Trainer::State::whole_input(const Batch& batch, const BatchShape& shape, const std::string& name) const {
  Tensor loaded = load(batch, name, 0, batch.samples);
  require_planned_shape(shape, name, 0, loaded);
  return loaded;
}

std::vector<double> Trainer::State::loss_weights(const Batch& batch, const BatchShape& shape) const {
  if (plan.devices[0]->kind() == DeviceKind::meta) return {1};
  if (!is_here(graph.loss_node())) return {};
  const int node = graph.loss_node();
  std::vector<Tensor> inputs;
  for (int value : graph.nodes()[node].inputs)
    inputs.push_back(graph.node_of(value) < 0 ? whole_input(batch, shape, graph.inputs()[value].name) : Tensor());
  return graph.nodes()[node].module->loss_weights(inputs, batch.samples);
}

RunContext Trainer::State::context(const Batch& batch, const PlanPrograms::Use& use) {
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

namespace {

/// Of its elements; empty on a device that only counts.
std::string hash_of_elements(const Tensor& x) {
  if (x.device().kind() == DeviceKind::meta) return "";
  const Tensor whole = x.on_host().contiguous();
  return sluice::hash_of({reinterpret_cast<const char*>(whole.data()), static_cast<size_t>(whole.bytes())});
}

}  // namespace

Trainer::State::Prepared Trainer::State::prepare(const Batch& batch, const std::function<PlanPrograms::Use(BatchShape)>& use_of) {
  Prepared prepared;
  const auto work = [&] {
    std::string inputs;
    const auto note = [&](const std::string& input, const Tensor& sample) {
      if (!group) return;
      inputs += join(", ", input, ' ', name_of(sample.dtype()), ' ', sample.shape().without(0));
      // Other hardware may prepare a sample with other bits.
      if (!options.allow_other_hardware) inputs += ", the first with hash " + hash_of_elements(sample);
    };
    prepared.use = use_of(shape_of(graph, batch, note));
    prepared.run = context(batch, prepared.use);
    return group ? description(prepared.use, inputs) : "";
  };
  together_alike(group, work, executor->timeout_seconds());
  return prepared;
}

std::string Trainer::State::description(const PlanPrograms::Use& use, const std::string& inputs) const {
  std::string text = join(use.training ? "step " : "an evaluation before step ", steps_done + 1, " of ", use.shape.samples, " samples in ",
                          use.micro_batches, " micro-batches", use.keeps_output ? ", with output" : "", inputs);
  if (use.training) text += fmt::format(", at a learning rate of {}", next_step().update.learning_rate);
  return text;
}

Wish Trainer::State::ask() {
  error_of_wish = nullptr;
  try {
    return options.wish();
  } catch (...) {
    error_of_wish = std::current_exception();
    return {};
  }
}

void Trainer::State::rethrow_error_of_wish() {
  if (error_of_wish) std::rethrow_exception(std::exchange(error_of_wish, nullptr));
}

void Trainer::State::show_averages(bool wanted) {
  if (optimizer->ema == 0 || shows_averages == wanted) return;
  shows_averages.reset();  // some stages show one and some the other, where this fails midway
  for (auto& stage : executor->stages()) wanted ? stage->show_averages() : stage->write_working(steps_done);
  share_weights(graph, *executor, group);
  shows_averages = wanted;
}

void Trainer::State::write_copies() {
  for (const auto& stage : executor->stages()) stage->write_working(steps_done);
  share_weights(graph, *executor, group);
}

void Trainer::State::note_step(double norm) {
  ++steps_done;
  if (std::isfinite(norm)) return;
  ++steps_skipped;
  if (options.stochastic_rounding) write_copies();
}

RunResult Trainer::State::run(const Program& program, const RunContext& context, const StepContext& step) {
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

RunResult Trainer::State::rehearse(const Program& program, RunContext context, StepContext step) {
  context.cuda_graphs = false;
  context.wish = {};
  step.changes_nothing = true;
  return run(program, context, step);
}

bool Trainer::State::wants_tuning() const {
  const auto is_tuned = [&](const DevicePtr& device) { return has_choices_for(describe_gpu(*device)); };
  return options.tuning != Tuning::off && !(has_adopted && std::ranges::all_of(plan.devices, is_tuned));
}

void Trainer::State::require_all_ranks() {
  try {
    barrier(*group, executor->timeout_seconds());
  } catch (const std::exception& failure) {
    group->abort(failure.what());
    throw;
  }
}

void Trainer::State::settle_choices(const Program& program, const RunContext& context, const StepContext& step) {
  if (is_settled) return;
  if (computes_on_gpus()) {
    if (group) require_all_ranks();
    if (any_rank(group, wants_tuning())) tune(program, context, step);
    adopt(agreed_choices(group, sluice::gpu_choices()));
  }
  is_settled = true;
}

void Trainer::State::tune(const Program& program, const RunContext& context, const StepContext& step) {
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

std::string Trainer::State::first_nonfinite(const Program& program, RunContext context, const StepContext& step) {
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

void Trainer::State::require_finite(const Program& program, const RunContext& context, const StepContext& step, double norm) {
  if (std::isfinite(norm) || options.on_nonfinite == OnNonfinite::skip) return;
  const DivergenceError error(
      join("training: the gradient of step ", steps_done + 1, " is not finite", first_nonfinite(program, context, step),
           "; no weight was changed. Lower the learning rate (optimizer.lr), set TrainerOptions::clip (optimizer.clip), lengthen the "
           "warm-up (optimizer.warmup), or leave such steps out with OnNonfinite::skip (train.on_nonfinite = \"skip\")"));
  if (group) on_root(group, [&] { throw error; });
  throw error;
}

}  // namespace sluice::parallel
