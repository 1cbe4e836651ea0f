#include "parallel/plan/predict.h"

#include <algorithm>

#include "parallel/plan/check.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/plan/plan_programs.h"
#include "parallel/plan/stage_chain.h"
#include "parallel/program/program_bytes.h"
#include "parallel/program/simulate.h"
#include "parallel/run/device_links.h"
#include "parallel/run/placement.h"

namespace sluice::parallel {

namespace {

std::vector<DeviceSpeed> by_device(const Plan& plan, const DeviceSpeeds& speeds) {
  std::vector<DeviceSpeed> all;
  for (size_t device = 0; device < plan.devices.size(); ++device) all.push_back(speeds.of(device));
  return all;
}

/// What each device of a plan holds while a counted program runs.
std::vector<DevicePrediction> device_predictions(const layers::Graph& graph, const Plan& plan, const CountingExecutor& counter,
                                                 const Program& program) {
  std::vector<DevicePrediction> devices(plan.devices.size());
  for (const Placement& placement : placements(graph, counter.executor())) {
    auto& device = devices[placement.device];
    device.parameter_bytes += placement.value_bytes;
    device.gradient_bytes += placement.gradient_bytes;
    device.optimizer_bytes += placement.state_bytes;
  }
  const auto peaks = counter.peaks(program);
  const auto sent = sent_bytes(program);
  for (size_t i = 0; i < devices.size(); ++i) {
    auto& device = devices[i];
    device.name = plan.devices[i]->name();
    device.budget_bytes = plan.devices[i]->budget_bytes();
    device.peak_bytes = peaks[i];
    device.sent_bytes = sent[i];
    device.activation_peak_bytes =
        std::max<int64_t>(0, device.peak_bytes - device.parameter_bytes - device.gradient_bytes - device.optimizer_bytes);
  }
  return devices;
}

/// What replicas do with their shards moves memory alone, and is not measured: it takes what was counted.
void add_exchanges(const Trace& counted, size_t stages, SimulationCosts& costs) {
  costs.shard_gradients.assign(stages, 0);
  costs.fold_shards.assign(stages, 0);
  for (const TraceEvent& event : counted.events) {
    const double seconds = event.end - event.start;
    if (event.action.kind == ActionKind::shard_gradients) costs.shard_gradients[static_cast<size_t>(event.action.stage)] = seconds;
    if (event.action.kind == ActionKind::fold_shards) costs.fold_shards[static_cast<size_t>(event.action.stage)] = seconds;
  }
}

/// Replaces the times of a trace on meta devices by those of its program under the plan's measured times.
void simulate_times(const layers::Graph& graph, const Topology& topology, const Plan& plan, const Optimizer& optimizer, int64_t batch,
                    const DeviceSpeeds& speeds, const Program& program, Prediction& prediction) {
  const int64_t samples = (batch + plan.micro_batches - 1) / plan.micro_batches;
  ModelCosts model{{}, device_kinds(plan.devices)};
  for (size_t device = 0; device < plan.devices.size(); ++device) {
    if (model.kind_of_device[device] < static_cast<int>(model.kinds.size())) continue;
    model.kinds.push_back(model_bytes(graph, samples, plan.precision, plan.devices[device]->backend(), optimizer));
    set_times(model.kinds.back(), plan.times[model.kinds.size() - 1]);
  }
  std::vector<int64_t> peaks;
  for (const auto& device : prediction.devices) peaks.push_back(device.peak_bytes);
  const Layout layout = layout_of(topology, plan, program.device_of_stage);
  SimulationCosts costs = simulation_costs(layout, model, links_of(plan.devices, by_device(plan, speeds)), peaks);
  add_exchanges(prediction.trace, layout.device_of_stage.size(), costs);
  const Timeline timeline = simulate(program, costs);
  std::vector<size_t> first(plan.devices.size(), 0);  // by device: its first event, as the trace is ordered by device
  for (size_t device = 1; device < first.size(); ++device) first[device] = first[device - 1] + program.devices[device - 1].size();
  for (const auto& action : timeline.actions) {
    TraceEvent& event = prediction.trace.events.at(first[action.device] + action.index);
    event.start = action.start;
    event.end = action.end;
  }
  prediction.trace.seconds = prediction.step_seconds = timeline.seconds;
  prediction.bubble = timeline.bubble;
}

PlanPrograms programs_of(const layers::Graph& graph, const Topology& topology, const Plan& plan, const Optimizer& optimizer,
                         const DeviceSpeeds& speeds) {
  return {graph, topology, plan, stage_options(plan, optimizer), by_device(plan, speeds)};
}

/// Whether the budgets hold a counted program, and what the devices hold then.
Prediction prediction_of(const layers::Graph& graph, const Plan& plan, PlanPrograms& programs, const PlanPrograms::Use& use,
                         const Program& program) {
  Prediction prediction;
  prediction.reason = programs.counter().refusal(program, use.shape, use.keeps_output);
  prediction.fits = prediction.reason.empty();
  prediction.devices = device_predictions(graph, plan, programs.counter(), program);
  return prediction;
}

}  // namespace

std::vector<int64_t> counted_peak_bytes(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch) {
  require_valid(plan, graph);
  const Topology topology = topology_of(graph);
  PlanPrograms programs = programs_of(graph, topology, plan, optimizer, {});
  return programs.counter().peaks(programs.count(programs.step(declared_shape(graph, batch))).program);
}

Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeeds& speeds) {
  require_valid(plan, graph);
  const Topology topology = topology_of(graph);
  PlanPrograms programs = programs_of(graph, topology, plan, optimizer, speeds);
  const auto use = programs.step(declared_shape(graph, batch));
  auto [program, run] = programs.count(use);
  Prediction prediction = prediction_of(graph, plan, programs, use, program);
  if (!prediction.fits) return prediction;
  prediction.step_seconds = run.trace.seconds;
  prediction.bubble = run.trace.bubble();
  prediction.flops = run.flops;
  prediction.trace = std::move(run.trace);
  if (!plan.times.empty()) simulate_times(graph, topology, plan, optimizer, batch, speeds, program, prediction);
  return prediction;
}

Prediction predict_evaluation(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, bool with_output) {
  require_valid(plan, graph);
  const Topology topology = topology_of(graph);
  PlanPrograms programs = programs_of(graph, topology, plan, optimizer, {});
  const auto use = programs.evaluation(declared_shape(graph, batch), with_output);
  return prediction_of(graph, plan, programs, use, programs.count(use).program);
}

std::vector<int64_t> peak_bytes_of_steps(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer,
                                         const std::vector<BatchShape>& shapes) {
  require_valid(plan, graph);
  const Topology topology = topology_of(graph);
  PlanPrograms programs = programs_of(graph, topology, plan, optimizer, {});
  std::vector<int64_t> most(plan.devices.size(), 0);
  for (const BatchShape& shape : shapes) {
    const auto peaks = programs.counter().peaks(programs.get(programs.step(shape)));
    for (size_t device = 0; device < peaks.size(); ++device) most[device] = std::max(most[device], peaks[device]);
  }
  return most;
}

}  // namespace sluice::parallel
