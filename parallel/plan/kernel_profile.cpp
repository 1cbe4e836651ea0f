#include "parallel/plan/kernel_profile.h"

#include <chrono>
#include <numeric>

#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/plan/plan_programs.h"
#include "parallel/run/placement.h"
#include "parallel/trainer.h"

namespace sluice::parallel {

namespace {

/// The plan on a device like its own that tallies kernels.
Plan tallying(Plan plan) {
  require(plan.devices.size() == 1, "kernels: needs a plan of one device, got ", plan.devices.size(), "; plan the whole model on one");
  const Device& device = *plan.devices[0];
  Device::Options options = device.options();
  options.tallies_kernels = true;
  options.budget_bytes = kUnlimited;
  plan.devices[0] = std::make_shared<Device>(device.kind(), device.index(), std::move(options));
  return plan;
}

void require_kind(const Plan& plan, bool is_meta) {
  const Device& device = *plan.devices[0];
  require((device.kind() == DeviceKind::meta) == is_meta, "kernels: needs ",
          is_meta ? "a meta device, which counts them" : "a device of this machine, which runs them", ", got ", device.name(), "; call ",
          is_meta ? "measured_kernels" : "counted_kernels");
}

/// Of one of `steps` steps.
KernelTallies mean_of(KernelTallies kernels, int64_t steps) {
  for (auto& [kind, tally] : kernels) {
    const auto share = 1 / static_cast<double>(steps);
    tally.calls /= steps;
    tally.cost = {tally.cost.flops * share, tally.cost.bytes_read * share, tally.cost.bytes_written * share};
    tally.seconds *= share;
  }
  return kernels;
}

/// Bytes of a model's parameters, by what reads and writes them.
struct ParameterBytes {
  double working = 0;              ///< what forward and backward read
  double gradients = 0;            ///< as many as there are of the masters
  double trained = 0, states = 0;  ///< what the optimizer writes
};

ParameterBytes parameter_bytes(const layers::Graph& graph, const Executor& executor, Precision precision) {
  ParameterBytes sum;
  for (const Placement& placement : placements(graph, executor)) {
    const auto value = static_cast<double>(placement.value_bytes), gradient = static_cast<double>(placement.gradient_bytes);
    sum.working += precision == Precision::bf16 ? value - gradient : value;  // the working copy beside the master
    sum.gradients += gradient;
    sum.states += static_cast<double>(placement.state_bytes);
    if (gradient > 0) sum.trained += value;
  }
  return sum;
}

double least_bytes(const layers::Graph& graph, const Topology& topology, const Plan& plan, const Optimizer& optimizer, int64_t batch,
                   const Executor& executor) {
  const int64_t samples = (batch + plan.micro_batches - 1) / plan.micro_batches;
  const ModelCost model = model_bytes(graph, samples, plan.precision, plan.devices[0]->backend(), optimizer);
  const StageCost stage = stage_cost(topology, model, 0, static_cast<int>(model.nodes.size()), plan.rematerialize);
  const auto of_batch = [&](int64_t bytes) {
    return static_cast<double>(bytes) * static_cast<double>(batch) / static_cast<double>(samples);
  };
  const double inputs = of_batch(std::accumulate(model.input_bytes.begin(), model.input_bytes.end(), int64_t{0}));
  const double kept = of_batch(stage.kept_bytes), recomputed = of_batch(stage.recomputed_bytes);
  const ParameterBytes parameters = parameter_bytes(graph, executor, plan.precision);
  const int passes = recomputed > 0 ? 3 : 2;  // a recomputation reads what is kept and writes what is not
  const double activations = inputs + passes * kept + 2 * recomputed;
  const double weights = plan.micro_batches * passes * parameters.working;
  const double gradients = (2 * plan.micro_batches - 1) * parameters.gradients;  // the first backward has none to add to
  const double step = 2 * parameters.gradients + parameters.trained + 2 * parameters.states;
  return activations + weights + gradients + step;
}

}  // namespace

KernelProfile counted_kernels(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch) {
  const Plan tallied = tallying(plan);
  require_kind(tallied, true);
  const Topology topology = topology_of(graph);
  PlanPrograms programs(graph, topology, tallied, stage_options(tallied, optimizer), {tallied.devices[0]->options().speed});
  Device& device = *programs.counter().executor().devices()[0];
  device.clear_kernels();  // of making the stages
  const auto counted = programs.count(programs.step(declared_shape(graph, batch)));
  return {device.kernels(), counted.run.trace.seconds,
          least_bytes(graph, topology, tallied, optimizer, batch, programs.counter().executor())};
}

KernelProfile measured_kernels(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, const Batch& batch,
                               double seconds) {
  using Clock = std::chrono::steady_clock;
  const Plan tallied = tallying(plan);
  require_kind(tallied, false);
  constexpr double kClip = 1e-6;  // the weights stay about where they are, whatever the learning rate
  Trainer trainer(graph, tallied, optimizer, {.clip = kClip});
  Device& device = *tallied.devices[0];
  trainer.step(batch);  // compiles products and finds memory
  device.clear_kernels();
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  constexpr int64_t kMostSteps = 50;
  int64_t steps = 0;
  double step_seconds = 0;
  for (; steps == 0 || (steps < kMostSteps && Clock::now() < end); ++steps) step_seconds += trainer.step(batch).seconds;
  const Topology topology = topology_of(graph);
  PlanPrograms programs(graph, topology, plan, stage_options(plan, optimizer), {DeviceSpeed{}});
  return {mean_of(device.kernels(), steps), step_seconds / static_cast<double>(steps),
          least_bytes(graph, topology, plan, optimizer, batch.samples, programs.counter().executor())};
}

}  // namespace sluice::parallel
