#include "parallel/trainer.h"

#include <algorithm>
#include <map>

#include "core/hash.h"
#include "core/ops/copy.h"
#include "parallel/executor.h"
#include "parallel/verify.h"

namespace sluice::parallel {

struct Trainer::State {
  State(const layers::Graph& model, Plan chosen, const Optimizer& rule, TrainerOptions wanted)
      : graph(model), plan(std::move(chosen)), optimizer(rule.clone()), options(wanted), topology(topology_of(graph)) {
    require(!options.stochastic_rounding || plan.precision == Precision::bf16,
            "train.stochastic_rounding: needs train.precision = \"bf16\", got ", name_of(plan.precision), "; switch one of them");
    const StageOptions common{plan.rematerialize, options.seed, optimizer->state_names().size(), plan.precision,
                              options.stochastic_rounding};
    std::vector<std::unique_ptr<Stage>> stages;
    for (int s = 0; s < plan.partition.stage_count(); ++s)
      stages.push_back(std::make_unique<Stage>(graph, topology, plan.partition, s, plan.devices[s], common));
    executor = std::make_unique<Executor>(plan.devices, std::move(stages), topology, options.timeout_seconds);
  }

  /// Lowered and proven once for each (M, schedule).
  const Program& program(const std::string& schedule, int micro_batches) {
    auto& kept = programs[{schedule, micro_batches}];
    if (kept.devices.empty()) {
      kept = lower(topology, plan.partition, make_schedule(schedule, plan.partition.stage_count(), micro_batches), plan.rematerialize);
      require_valid(topology, kept);
    }
    return kept;
  }

  double loss_weight(const Batch& batch) const {
    if (plan.devices[0]->kind() == DeviceKind::meta) return 1;
    const int node = graph.loss_node();
    std::vector<Tensor> inputs;
    for (int value : graph.nodes()[node].inputs)
      inputs.push_back(graph.node_of(value) < 0 ? batch.load(graph.inputs()[value].name, 0, batch.samples) : Tensor());
    return graph.nodes()[node].module->loss_weight(inputs);
  }

  RunContext context(const Batch& batch, int micro_batches, bool training) const {
    RunContext run;
    run.batch = &batch;
    run.first_sample = micro_batch_bounds(batch.samples, micro_batches);
    run.training = training;
    run.step = static_cast<uint32_t>(steps_done);
    return run;
  }

  layers::Graph graph;
  Plan plan;
  std::unique_ptr<Optimizer> optimizer;
  TrainerOptions options;
  Topology topology;
  std::unique_ptr<Executor> executor;
  std::map<std::pair<std::string, int>, Program> programs;
  int64_t steps_done = 0;
  Trace trace;
};

Trainer::Trainer(const layers::Graph& graph, Plan plan, const Optimizer& optimizer, TrainerOptions options)
    : state_(std::make_unique<State>(graph, std::move(plan), optimizer, options)) {}

Trainer::~Trainer() = default;

StepResult Trainer::step(const Batch& batch, int micro_batches) {
  RunContext run = state_->context(batch, micro_batches > 0 ? micro_batches : state_->plan.micro_batches, true);
  const double weight = state_->loss_weight(batch);
  require(weight > 0, "step: needs a mini-batch with at least one target that counts, got a total weight of ", weight);
  run.loss_scale = 1 / weight;
  StepContext step;
  step.optimizer = state_->optimizer.get();
  step.update = {state_->optimizer->rate.at(state_->steps_done), state_->steps_done + 1, {{}, state_->options.clip}};
  RunResult result = state_->executor->run(state_->program(state_->plan.schedule, run.micro_batches()), run, step);
  ++state_->steps_done;
  state_->trace = std::move(result.trace);
  return {result.loss, result.gradient_norm, step.update.learning_rate, state_->trace.seconds, state_->trace.bubble(), result.flops};
}

EvaluationResult Trainer::evaluate(const Batch& batch, bool with_output) {
  const int micro_batches = static_cast<int>(std::min<int64_t>(state_->plan.micro_batches, batch.samples));
  RunContext run = state_->context(batch, micro_batches, false);
  run.keeps_output = with_output;
  const RunResult result = state_->executor->run(state_->program("forward-only", micro_batches), run, {});
  return {result.loss, state_->loss_weight(batch), result.output};
}

const layers::Graph& Trainer::graph() const { return state_->graph; }
const Plan& Trainer::plan() const { return state_->plan; }
const Optimizer& Trainer::optimizer() const { return *state_->optimizer; }
int64_t Trainer::steps_done() const { return state_->steps_done; }
void Trainer::set_steps_done(int64_t steps) { state_->steps_done = steps; }
const Trace& Trainer::trace() const { return state_->trace; }

std::vector<ParameterState> Trainer::parameters() const {
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

std::vector<Trainer::Placement> Trainer::placements() const {
  std::vector<Placement> all;
  for (const auto& stage : state_->executor->stages()) {
    for (const auto& parameter : stage->parameters()) {
      const auto& description = state_->graph.parameters()[parameter.index];
      const int64_t single = Device::charged_size(description.spec.shape.elements() * static_cast<int64_t>(size_of(DType::f32)));
      const bool has_copy = !parameter.working.shares_storage(parameter.master);
      const int64_t copy = has_copy ? Device::charged_size(parameter.working.bytes()) : 0;
      all.push_back({description.name, stage->index(), (parameter.master.defined() ? single : 0) + copy, single,
                     single * static_cast<int64_t>(parameter.states.size())});
    }
    for (const auto& statistics : stage->statistics().entries())
      all.push_back({state_->graph.statistics()[statistics.index].name, stage->index(),
                     2 * Device::charged_size(statistics.running.mean.bytes()), 0, 0});
  }
  return all;
}

void Trainer::publish_parameters() {
  std::map<int, Tensor> owned;
  for (const auto& stage : state_->executor->stages()) {
    stage->write_working(state_->steps_done);
    for (const auto& parameter : stage->parameters())
      if (parameter.owned) owned[parameter.index] = parameter.working;
  }
  for (const auto& stage : state_->executor->stages())
    for (const auto& parameter : stage->parameters())
      if (!parameter.owned) copy(owned.at(parameter.index), parameter.working);
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
