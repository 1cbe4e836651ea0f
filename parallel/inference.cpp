#include "parallel/inference.h"

#include <algorithm>

#include "core/keep_to_the_end.h"
#include "parallel/plan/check.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_count.h"
#include "parallel/plan/plan_programs.h"

namespace sluice::parallel {

namespace {

/// It trains nothing.
const SGD kNoOptimizer({.momentum = 0});

bool has_known_inputs(const layers::Graph& graph) {
  return std::ranges::all_of(graph.inputs(), [](const auto& input) { return input.sample_shape.has_value(); });
}

/// Stages whose slowest forward is the fastest, on a device that only counts; of as many nodes each where the inputs' shapes are not known.
Partition balanced(const layers::Graph& graph, int stages, const DevicePtr& device, const InferenceOptions& options) {
  const int nodes = static_cast<int>(graph.nodes().size());
  if (stages == 1 || !has_known_inputs(graph)) return partition_uniform(nodes, stages);
  const auto meta = std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = device->backend()});
  std::vector<double> seconds;
  for (const NodeCount& node : count_nodes(graph, options.samples, meta, options.precision, kNoOptimizer))
    seconds.push_back(node.times.forward);
  return partition_balanced(seconds, stages);
}

Plan plan_of(const layers::Graph& graph, std::vector<DevicePtr> devices, const InferenceOptions& options) {
  require_devices(devices, options.precision, "inference");
  require(devices[0]->kind() != DeviceKind::meta, "inference: needs cpu or cuda devices, got ", devices[0]->name(),
          ", which only counts; give others, such as \"cpu:0\"");
  require(options.micro_batches >= 1, "InferenceOptions::micro_batches: needs at least one, got ", options.micro_batches);
  const int nodes = static_cast<int>(graph.nodes().size());
  const bool is_given = !options.stages.empty();
  require(!is_given || options.stages.size() <= devices.size(), "InferenceOptions::stages: needs at most one for each of the ",
          devices.size(), " devices, got ", options.stages.size());
  const int stages = is_given ? static_cast<int>(options.stages.size()) : std::min(nodes, static_cast<int>(devices.size()));
  devices.resize(static_cast<size_t>(stages));
  Plan plan;
  require_timeout(options.timeout_seconds, "InferenceOptions::timeout_seconds");
  plan.partition =
      is_given ? partition_given(options.stages, nodes, "InferenceOptions::stages") : balanced(graph, stages, devices[0], options);
  plan.devices = std::move(devices);
  plan.micro_batches = options.micro_batches;
  plan.rematerialize.assign(static_cast<size_t>(nodes), false);
  plan.precision = options.precision;
  require_valid(plan, graph);
  return plan;
}

}  // namespace

struct InferencePipeline::State {
  State(layers::Graph model, std::vector<DevicePtr> devices, const Weights& weights, const InferenceOptions& options)
      : graph(std::move(model)),
        topology(inference_topology_of(graph)),
        plan(plan_of(graph, std::move(devices), options)),
        sizes(plan.partition.stage_sizes()),
        placement(device_of_stage(plan)),
        common{.precision = plan.precision, .inference = true},
        programs(graph, topology, plan, common),
        executor(graph, layout_of(topology, plan, placement), plan.devices, common, options.timeout_seconds),
        predicted(plan.devices.size(), 0) {
    for (const auto& stage : executor.stages()) stage->set_weights(weights);
  }

  const Program& verified(const PlanPrograms::Use& use) {
    const Program& program = programs.get(use);
    if (!program.is_counted) return program;
    const auto peaks = programs.counter().peaks(program);
    for (size_t device = 0; device < peaks.size(); ++device) predicted[device] = std::max(predicted[device], peaks[device]);
    return program;
  }

  /// That of a run which begins or continues groups as full as they get.
  const Program& verified(PlanPrograms::Use& use, bool begins) {
    const int64_t tokens = use.shape.inputs.at(tokens_name(use.sequences->tokens_input)).sample_shape[0];
    use.sequences->length = begins ? 0 : use.sequences->capacity - tokens;
    use.sequences->moves_rows = !begins;
    return verified(use);
  }

  const std::string& tokens_name(int input) const { return graph.inputs().at(static_cast<size_t>(input)).name; }

  std::map<int, Tensor> run(const Program& program, const Batch& batch, const PlanPrograms::Use& use, const Sequences* sequences) {
    RunContext run;
    run.batch = &batch;
    run.shape = use.shape;
    run.first_sample = micro_batch_bounds(batch.samples, use.micro_batches);
    run.training = false;
    run.keeps_output = true;
    run.sequences = sequences;
    RunResult result = executor.run(program, run, {});
    trace = std::move(result.trace);
    return std::move(result.outputs);
  }

  std::map<int, Tensor> run(const Batch& batch) {
    const auto use = programs.evaluation(shape_of(graph, batch), true);
    return run(verified(use), batch, use, nullptr);
  }

  const layers::Graph graph;
  const Topology topology;
  const Plan plan;
  const std::vector<int> sizes, placement;
  const StageOptions common;
  PlanPrograms programs;
  Executor executor;
  std::vector<int64_t> predicted;
  Trace trace;
};

InferencePipeline::InferencePipeline(layers::Graph graph, std::vector<DevicePtr> devices, const Weights& weights,
                                     const InferenceOptions& options)
    : state_(std::make_unique<State>(std::move(graph), std::move(devices), weights, options)) {}

/// As a trainer: a thread that never comes back uses the state for ever.
InferencePipeline::~InferencePipeline() {
  if (state_->executor.is_abandoned()) keep_to_the_end(std::move(state_));
}

Tensor InferencePipeline::run(const Batch& batch) { return state_->run(batch).at(state_->graph.output_node()); }

std::map<std::string, Tensor> InferencePipeline::run_all(const Batch& batch) {
  std::map<std::string, Tensor> outputs;
  for (auto& [node, output] : state_->run(batch)) outputs[state_->graph.nodes()[static_cast<size_t>(node)].name] = std::move(output);
  return outputs;
}

namespace {

/// So many tokens a sample, all other inputs as the graph declares them: as long as they may get.
BatchShape longest(const layers::Graph& graph, int64_t samples, const std::string& tokens_name, const Shape& tokens) {
  BatchShape shape = declared_shape(graph, samples);
  shape.inputs.at(tokens_name).sample_shape = tokens;
  return shape;
}

void check(const Sequences& sequences, int64_t samples, int64_t tokens, int groups) {
  const size_t count = sequences.groups.size();
  require(count > 0 && sequences.lengths.size() == count && (sequences.parents.empty() || sequences.parents.size() == count),
          "sequences: need a length and a list of parents for each group, got ", count, " groups, ", sequences.lengths.size(),
          " lengths and ", sequences.parents.size(), " lists");
  require(samples % static_cast<int64_t>(count) == 0, "sequences: need as many rows in each of the ", count, " groups, got ", samples,
          " in all");
  const int64_t rows = samples / static_cast<int64_t>(count);
  for (size_t m = 0; m < count; ++m) {
    const int64_t length = sequences.lengths[m];
    require(sequences.groups[m] >= 0 && sequences.groups[m] < groups, "sequences: need groups 0 to ", groups - 1, ", got ",
            sequences.groups[m]);
    require(length >= 0 && length + tokens <= sequences.capacity, "sequences: have room for ", sequences.capacity, " tokens, got ", length,
            " and ", tokens, " more; begin with a larger capacity");
    for (const int32_t parent : sequences.parents.empty() ? std::vector<int32_t>() : sequences.parents[m])
      require(parent >= 0 && parent < rows, "sequences: need parents from 0 to ", rows - 1, ", got ", parent);
    require(sequences.parents.empty() || sequences.parents[m].empty() || static_cast<int64_t>(sequences.parents[m].size()) == rows,
            "sequences: need a parent for each of the ", rows, " rows or none, got ",
            sequences.parents.empty() ? 0 : sequences.parents[m].size());
  }
}

}  // namespace

Tensor InferencePipeline::run(const Batch& batch, const Sequences& sequences, int groups) {
  const std::string& name = state_->tokens_name(sequences.tokens_input);
  const Tensor sample = batch.load(name, 0, 1);
  require(sample.rank() >= 2, "sequences: need tokens [rows, count] for input '", name, "', got ", sample);
  check(sequences, batch.samples, sample.dim(1), groups);
  const int micro_batches = static_cast<int>(sequences.groups.size());
  PlanPrograms::Use use{false, micro_batches, true, longest(state_->graph, batch.samples, name, sample.shape().without(0)),
                        SequencesShape{sequences.tokens_input, sequences.capacity, 0, groups}};
  const bool begins = std::ranges::count(sequences.lengths, 0) > 0;
  const bool continues = std::ranges::count(sequences.lengths, 0) < micro_batches;
  const Program* program = begins ? &state_->verified(use, true) : nullptr;
  if (continues) program = &state_->verified(use, false);
  return state_->run(*program, batch, use, &sequences).at(state_->graph.output_node());
}

std::vector<int64_t> InferencePipeline::kept_bytes() { return state_->programs.counter().kept(); }

std::vector<int64_t> InferencePipeline::expect_sequences(int64_t rows, const Sequences& like, int groups) {
  const std::string& name = state_->tokens_name(like.tokens_input);
  PlanPrograms::Use use{false, groups, true, longest(state_->graph, rows * groups, name, {1}),
                        SequencesShape{like.tokens_input, like.capacity, 0, groups}};
  state_->verified(use, true);
  if (like.capacity > 1) state_->verified(use, false);
  return kept_bytes();
}

void InferencePipeline::hold_beside(std::vector<int64_t> bytes) { state_->programs.hold_beside(std::move(bytes)); }

void InferencePipeline::end_sequences(int group) {
  for (const auto& stage : state_->executor.stages()) stage->end_sequences(group);
}

const layers::Graph& InferencePipeline::graph() const { return state_->graph; }
const std::vector<DevicePtr>& InferencePipeline::devices() const { return state_->plan.devices; }
const std::vector<int>& InferencePipeline::stage_sizes() const { return state_->sizes; }
const std::vector<int64_t>& InferencePipeline::predicted_peak_bytes() const { return state_->predicted; }
const Trace& InferencePipeline::trace() const { return state_->trace; }

}  // namespace sluice::parallel
