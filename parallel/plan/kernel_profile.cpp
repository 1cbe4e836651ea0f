#include "parallel/plan/kernel_profile.h"

#include <chrono>

#include "parallel/plan/model_topology.h"
#include "parallel/plan/plan_programs.h"
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

}  // namespace

KernelProfile counted_kernels(const layers::Graph& graph, const Plan& plan, const Optimizer& optimizer, int64_t batch) {
  const Plan tallied = tallying(plan);
  require_kind(tallied, true);
  const Topology topology = topology_of(graph);
  PlanPrograms programs(graph, topology, tallied, stage_options(tallied, optimizer), {tallied.devices[0]->options().speed});
  Device& device = *programs.counter().executor().devices()[0];
  device.clear_kernels();  // of making the stages
  const auto counted = programs.count(programs.step(declared_shape(graph, batch)));
  return {device.kernels(), counted.run.trace.seconds};
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
  return {mean_of(device.kernels(), steps), step_seconds / static_cast<double>(steps)};
}

}  // namespace sluice::parallel
