#include "parallel/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <string_view>
#include <utility>

#include "core/keep_to_the_end.h"
#include "core/ops/copy.h"
#include "parallel/checkpoint/layout.h"
#include "parallel/program/program_bytes.h"
#include "parallel/run/model_hash.h"
#include "parallel/trainer_state.h"

namespace sluice::parallel {

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
int64_t Trainer::steps_skipped() const { return state_->steps_skipped; }
void Trainer::set_steps_done(int64_t steps, int64_t skipped) {
  state_->require_idle();
  require(steps >= 0 && steps <= kMostSteps, "Trainer::set_steps_done: needs a number from 0 to ", kMostSteps, ", got ", steps);
  require(skipped >= 0 && skipped <= steps, "Trainer::set_steps_done: needs a number of skipped steps from 0 to ", steps, ", got ",
          skipped);
  state_->steps_done = steps;
  state_->steps_skipped = skipped;
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
