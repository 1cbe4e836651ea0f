#include "parallel/plan.h"

#include <algorithm>

#include "parallel/stage.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

namespace {

/// By value: something upstream has a parameter.
std::vector<bool> depends_on_parameters(const layers::Graph& graph) {
  std::vector<bool> result(graph.inputs().size(), false);
  for (const auto& node : graph.nodes())
    result.push_back(!node.parameters.empty() || std::ranges::any_of(node.inputs, [&](int value) { return result[value]; }));
  return result;
}

/// By value: the loss lies downstream.
std::vector<bool> leads_to_loss(const layers::Graph& graph) {
  std::vector<bool> result(graph.inputs().size() + graph.nodes().size(), false);
  result[graph.value_of(graph.loss_node())] = true;
  for (int node = static_cast<int>(graph.nodes().size()) - 1; node >= 0; --node)
    if (result[graph.value_of(node)])
      for (int value : graph.nodes()[node].inputs) result[value] = true;
  return result;
}

}  // namespace

Topology topology_of(const layers::Graph& graph) {
  Topology topology;
  for (const auto& input : graph.inputs()) topology.inputs.push_back(input.name);
  for (const auto& node : graph.nodes()) topology.nodes.push_back({node.name, node.inputs, !node.statistics.empty()});
  const auto upstream = depends_on_parameters(graph), downstream = leads_to_loss(graph);
  for (size_t value = 0; value < upstream.size(); ++value) topology.differentiable.push_back(upstream[value] && downstream[value]);
  for (const auto& parameter : graph.parameters()) {
    if (parameter.nodes.size() > 1) topology.tied.push_back({parameter.name, parameter.nodes});
    for (int node : parameter.nodes)
      require(downstream[graph.value_of(node)], "graph: node '", graph.nodes()[node].name,
              "' has parameters but the loss does not depend on it; connect it or remove it");
  }
  return topology;
}

namespace {

/// A mini-batch of the graph's input shapes that exists in numbers only.
Batch meta_batch(const layers::Graph& graph, int64_t samples) {
  const auto host = make_device("meta:0");
  for (const auto& input : graph.inputs())
    require(input.sample_shape.has_value(), "plan: needs the sample shape of input '", input.name,
            "'; give it with Graph::input(name, shape, dtype)");
  return {samples, [&graph, host](const std::string& name, int64_t, int64_t count) {
            const auto& input = *std::ranges::find_if(graph.inputs(), [&](const auto& candidate) { return candidate.name == name; });
            std::vector<int64_t> extents{count};
            extents.insert(extents.end(), input.sample_shape->extents().begin(), input.sample_shape->extents().end());
            return empty(Shape(extents), input.dtype, host);
          }};
}

std::vector<bool> rematerialized_nodes(const layers::Graph& graph, const PlanOptions& options) {
  const size_t nodes = graph.nodes().size();
  if (options.remat == "none") return std::vector<bool>(nodes, false);
  if (options.remat == "full") return std::vector<bool>(nodes, true);
  require(options.remat == "list", "pipeline.remat: unknown '", options.remat, "'; known are none, full and a list of node names");
  std::vector<bool> result(nodes, false);
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.name);
  for (const auto& name : options.remat_nodes) {
    const auto found = std::ranges::find(names, name);
    require(found != names.end(), "pipeline.remat: there is no node '", name, "'; the nearest is '", nearest_word(name, names), "'");
    result[found - names.begin()] = true;
  }
  return result;
}

Partition chosen_partition(const layers::Graph& graph, int stages, const PlanOptions& options, const DeviceSpeed& speed) {
  const int nodes = static_cast<int>(graph.nodes().size());
  if (options.partition == "list") {
    require(static_cast<int>(options.sizes.size()) == stages, "pipeline.partition: needs one number a device, got ", options.sizes.size(),
            " numbers for ", stages, " devices");
    return partition_given(options.sizes, nodes);
  }
  if (options.partition == "uniform") return partition_uniform(nodes, stages);
  if (options.partition == "parameters") {
    std::vector<double> counts;
    for (int node = 0; node < nodes; ++node) counts.push_back(static_cast<double>(graph.parameter_count(node)));
    return partition_balanced(counts, stages);
  }
  require(options.partition == "auto", "pipeline.partition: unknown '", options.partition, "'; the nearest is '",
          nearest_word(options.partition, {"auto", "uniform", "parameters", "list"}), "'");
  if (stages == 1 || stages > nodes) return partition_uniform(nodes, stages);
  const int64_t samples = std::max<int64_t>(1, options.batch / options.micro_batches);
  return partition_balanced(node_costs(graph, samples, speed, options.precision), stages);
}

}  // namespace

std::vector<double> node_costs(const layers::Graph& graph, int64_t samples, const DeviceSpeed& speed, Precision precision) {
  const auto device = make_device("meta:0", {.speed = speed});
  const Topology topology = topology_of(graph);
  const int nodes = topology.node_count();
  const Batch batch = meta_batch(graph, samples);
  RunContext run{&batch, {0, samples}, true, 1, 0};
  std::vector<double> costs;
  std::vector<Tensor> values(topology.value_count());
  for (int node = 0; node < nodes; ++node) {
    layers::Call call;
    for (int value : topology.nodes[node].inputs) {
      if (topology.node_of(value) < 0)
        values[value] = in_working_dtype(batch.load(topology.inputs[value], 0, samples).to(device), precision);
      call.inputs.push_back(topology.differentiable[value] ? Var::input(values[value]) : Var(values[value]));
    }
    for (int parameter : graph.nodes()[node].parameters)
      call.parameters.push_back(Var::parameter(empty(graph.parameters()[parameter].spec.shape, working_dtype(precision), device)));
    device->set_clock(0);
    const Var y = graph.nodes()[node].module->forward(call);
    if (y.node()) Backward(y, empty_like(y.value())).run();
    values[topology.value_of(node)] = y.value();
    costs.push_back(device->clock_seconds());
  }
  return costs;
}

Plan plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options) {
  const int stages = static_cast<int>(devices.size()), nodes = static_cast<int>(graph.nodes().size());
  require(stages >= 1, "plan: needs at least one device");
  require(stages <= nodes, "pipeline.devices: needs at most one stage a node, got ", stages, " devices for ", nodes,
          " nodes; use fewer devices or a deeper model");
  micro_batch_bounds(options.batch, options.micro_batches);
  make_schedule(options.schedule, stages, options.micro_batches);
  if (options.memory != kUnlimited)
    for (auto& device : devices) device->set_budget_bytes(options.memory);
  for (const auto& device : devices)
    require(options.precision != Precision::tf32 || device->kind() != DeviceKind::cuda || device->options().allow_tf32,
            "plan: precision tf32 needs CUDA devices made with allow_tf32, ", device->name(), " was made without");
  Plan result;
  result.precision = options.precision;
  result.partition = chosen_partition(graph, stages, options, devices[0]->options().speed);
  result.micro_batches = options.micro_batches;
  result.schedule = options.schedule;
  result.rematerialize = rematerialized_nodes(graph, options);
  result.devices = std::move(devices);
  return result;
}

namespace {

/// A message that begins with the name of a counting device, with the name of the device that it stands for.
std::string with_planned_names(const std::string& message, const Plan& counted, const Plan& plan) {
  for (size_t i = 0; i < counted.devices.size(); ++i) {
    const std::string name = counted.devices[i]->name() + ":";
    if (message.starts_with(name)) return join(plan.devices[i]->name(), message.substr(name.size() - 1));
  }
  return message;
}

}  // namespace

Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeed& speed) {
  Plan counted = plan;
  for (auto& device : counted.devices)
    device = std::make_shared<Device>(
        DeviceKind::meta, device->index(),
        Device::Options{
            .budget_bytes = device->budget_bytes(), .threads = device->options().threads, .speed = speed, .stands_for = device->backend()});
  Prediction result;
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    result.devices.push_back({});
    result.devices[i].name = plan.devices[i]->name();
    result.devices[i].budget_bytes = plan.devices[i]->budget_bytes();
  }
  try {
    Trainer trainer(graph, counted, optimizer);
    for (const auto& parameter : trainer.placements()) {
      auto& device = result.devices[parameter.device];
      device.parameter_bytes += parameter.value_bytes;
      device.gradient_bytes += parameter.gradient_bytes;
      device.optimizer_bytes += parameter.state_bytes;
    }
    const StepResult step = trainer.step(meta_batch(graph, batch));
    result.step_seconds = step.seconds;
    result.bubble = step.bubble;
    result.flops = step.flops;
    result.trace = trainer.trace();
  } catch (const OutOfMemory& error) {
    result.fits = false;
    result.reason = with_planned_names(error.what(), counted, plan);
  }
  for (size_t i = 0; i < counted.devices.size(); ++i) {
    auto& device = result.devices[i];
    device.peak_bytes = counted.devices[i]->peak_bytes();
    device.activation_peak_bytes =
        std::max<int64_t>(0, device.peak_bytes - device.parameter_bytes - device.gradient_bytes - device.optimizer_bytes);
  }
  return result;
}

}  // namespace sluice::parallel
