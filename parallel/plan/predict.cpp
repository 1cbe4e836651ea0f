#include "parallel/plan/predict.h"

#include <algorithm>

#include "parallel/plan/check.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/program/simulate.h"
#include "parallel/run/device_links.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

namespace {

/// A message that begins with the name of a counting device, with the name of the device that it stands for.
std::string with_planned_names(const std::string& message, const Plan& counted, const Plan& plan) {
  for (size_t i = 0; i < counted.devices.size(); ++i) {
    const std::string name = counted.devices[i]->name() + ":";
    if (message.starts_with(name)) return join(plan.devices[i]->name(), message.substr(name.size() - 1));
  }
  return message;
}

/// The plan on meta devices that count for its own.
Plan counting_plan(const Plan& plan, const DeviceSpeeds& speeds, bool with_budgets) {
  require_valid(plan);
  Plan counted = plan;
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    auto& device = counted.devices[i];
    const Device::Options options{.budget_bytes = with_budgets ? device->budget_bytes() : kUnlimited,
                                  .threads = device->options().threads,
                                  .speed = speeds.of(i),
                                  .stands_for = device->backend()};
    device = std::make_shared<Device>(DeviceKind::meta, device->index(), options);
  }
  return counted;
}

std::vector<int64_t> peak_bytes(const Plan& plan) {
  std::vector<int64_t> peaks;
  for (const auto& device : plan.devices) peaks.push_back(device->peak_bytes());
  return peaks;
}

/// `peaks`  bytes by device: the more, the longer its actions take.
SimulationCosts simulation_costs(const layers::Graph& graph, const Topology& topology, const Plan& plan, const ModelCosts& model,
                                 const DeviceSpeeds& speeds, const std::vector<int64_t>& peaks) {
  SimulationCosts costs;
  const auto placement = device_of_stage(plan);
  costs.step.assign(plan.devices.size(), 0);
  const auto stages = stage_costs(topology, model, plan.partition.segments(), placement, plan.rematerialize);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const double factor = model.on(placement[stage]).crowding.factor(peaks[placement[stage]]);
    costs.forward.push_back(factor * stages[stage].forward);
    costs.backward.push_back(factor * stages[stage].backward);
    costs.input_gradient.push_back(factor * stages[stage].input_gradient);
    costs.weight_gradient.push_back(factor * stages[stage].weight_gradient);
    costs.recompute.push_back(factor * stages[stage].recompute);
    costs.step[placement[stage]] += stages[stage].step;
  }
  for (const int64_t bytes : model.any().input_bytes) costs.value_bytes.push_back(static_cast<double>(bytes));
  for (size_t node = 0; node < graph.nodes().size(); ++node)
    costs.value_bytes.push_back(static_cast<double>(model.any().nodes[node].wire_bytes));
  std::vector<DeviceSpeed> by_device;
  for (size_t device = 0; device < plan.devices.size(); ++device) by_device.push_back(speeds.of(device));
  costs.links = links_of(by_device);
  costs.norm = model.any().norm;
  return costs;
}

/// What each device of a plan holds, after a step on the devices that counted for it.
std::vector<DevicePrediction> bytes_of(const Trainer& trainer, const Plan& counted, const Plan& plan) {
  std::vector<DevicePrediction> devices(plan.devices.size());
  for (const auto& parameter : trainer.placements()) {
    auto& device = devices[parameter.device];
    device.parameter_bytes += parameter.value_bytes;
    device.gradient_bytes += parameter.gradient_bytes;
    device.optimizer_bytes += parameter.state_bytes;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    auto& device = devices[i];
    device.name = plan.devices[i]->name();
    device.budget_bytes = plan.devices[i]->budget_bytes();
    device.peak_bytes = counted.devices[i]->peak_bytes();
    device.activation_peak_bytes =
        std::max<int64_t>(0, device.peak_bytes - device.parameter_bytes - device.gradient_bytes - device.optimizer_bytes);
  }
  return devices;
}

/// Which device lacks how many bytes.
std::string shortages(const std::vector<DevicePrediction>& devices) {
  std::string text;
  for (const auto& device : devices)
    if (device.peak_bytes > device.budget_bytes)
      text += join("; ", device.name, " needs ", device.peak_bytes, " bytes in all and lacks ", device.peak_bytes - device.budget_bytes);
  return text;
}

/// Replaces the times of a trace on meta devices by those of its program under the plan's measured times.
void simulate_times(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeeds& speeds,
                    const std::vector<int64_t>& peaks, Prediction& prediction) {
  const Topology topology = topology_of(graph);
  const int64_t samples = (batch + plan.micro_batches - 1) / plan.micro_batches;
  ModelCosts model{{}, device_kinds(plan.devices)};
  for (size_t device = 0; device < plan.devices.size(); ++device) {
    if (model.kind_of_device[device] < static_cast<int>(model.kinds.size())) continue;
    model.kinds.push_back(model_bytes(graph, samples, plan.precision, plan.devices[device]->backend(), optimizer));
    set_times(model.kinds.back(), plan.times[model.kinds.size() - 1]);
  }
  const Program program = lower(topology, plan.partition.segments(), schedule_of(plan, plan.micro_batches), plan.rematerialize);
  const Timeline timeline = simulate(program, simulation_costs(graph, topology, plan, model, speeds, peaks));
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

/// Lets `work` run on devices that count, within their budgets and, when they are too small, without.
Prediction count(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, const DeviceSpeeds& speeds,
                 const std::function<void(Trainer&, Prediction&)>& work) {
  Prediction result;
  const auto run = [&](const Plan& counted) {
    Trainer trainer(graph, counted, optimizer);
    work(trainer, result);
    result.devices = bytes_of(trainer, counted, plan);
  };
  const Plan counted = counting_plan(plan, speeds, true);
  try {
    run(counted);
  } catch (const OutOfMemory& error) {
    run(counting_plan(plan, speeds, false));
    result = {.fits = false,
              .reason = with_planned_names(error.what(), counted, plan) + shortages(result.devices),
              .devices = std::move(result.devices),
              .trace = {}};
  }
  return result;
}

}  // namespace

std::vector<int64_t> counted_peak_bytes(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch) {
  const Plan counted = counting_plan(plan, {}, false);
  Trainer(graph, counted, optimizer).step(meta_batch(graph, batch));
  return peak_bytes(counted);
}

Prediction predict(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, const DeviceSpeeds& speeds) {
  Prediction prediction = count(graph, plan, optimizer, speeds, [&](Trainer& trainer, Prediction& result) {
    const StepResult step = trainer.step(meta_batch(graph, batch));
    result.step_seconds = step.seconds;
    result.bubble = step.bubble;
    result.flops = step.flops;
    result.trace = trainer.trace();
  });
  std::vector<int64_t> peaks;
  for (const auto& device : prediction.devices) peaks.push_back(device.peak_bytes);
  if (prediction.fits && !plan.times.empty()) simulate_times(graph, plan, optimizer, batch, speeds, peaks, prediction);
  return prediction;
}

Prediction predict_evaluation(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch, bool with_output) {
  return count(graph, plan, optimizer, {}, [&](Trainer& trainer, Prediction&) { trainer.evaluate(meta_batch(graph, batch), with_output); });
}

}  // namespace sluice::parallel
