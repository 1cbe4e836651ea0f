#include "tests/parallel/pipelines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "parallel/plan/model_topology.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/schedule/csv.h"
#include "parallel/trainer.h"

namespace sluice::testing {

using namespace parallel;

namespace {

constexpr int kMicroBatches = 4;
const AdamW kAdamW({.lr = 1e-2});

const Optimizer& optimizer_of(const Pipeline& pipeline) { return pipeline.optimizer ? *pipeline.optimizer : kAdamW; }

std::vector<DevicePtr> cpus(int count) {
  std::string names = "cpu:0";
  for (int i = 1; i < count; ++i) names += ",cpu:" + std::to_string(i);
  return devices(names);
}

Plan plan_of(const layers::Graph& graph, const Pipeline& pipeline, int64_t samples, int64_t memory = kUnlimited) {
  return plan(graph, cpus(pipeline.devices),
              {.batch = samples,
               .micro_batches = kMicroBatches,
               .schedule = pipeline.schedule,
               .partition = pipeline.partition,
               .remat = pipeline.remat,
               .memory = memory,
               .optimizer = &optimizer_of(pipeline)});
}

int64_t largest_peak(const layers::Graph& graph, Pipeline pipeline, Remat remat, int64_t samples) {
  pipeline.remat = remat;
  const Prediction prediction = predict(graph, plan_of(graph, pipeline, samples), optimizer_of(pipeline), samples, {});
  return std::ranges::max(prediction.devices, {}, &DevicePrediction::peak_bytes).peak_bytes;
}

int64_t budget_of(const layers::Graph& graph, const Pipeline& pipeline, int64_t samples) {
  if (!pipeline.remat.is_open()) return kUnlimited;
  return (largest_peak(graph, pipeline, Remat::none, samples) + largest_peak(graph, pipeline, Remat::full, samples)) / 2;
}

}  // namespace

Outcome train(const layers::Graph& graph, const BatchMaker& batch, const Pipeline& pipeline) {
  const int64_t samples = batch(0).samples;
  const Plan chosen = plan_of(graph, pipeline, samples, budget_of(graph, pipeline, samples));
  SCOPED_TRACE(join(pipeline.devices, " devices, ", chosen.partition.stage_count(), " stages, ", name_of(chosen.schedule), ", ",
                    std::ranges::count(chosen.rematerialize, true), " nodes rematerialized"));
  Outcome outcome;
  const Prediction prediction = predict(graph, chosen, optimizer_of(pipeline), samples, {});
  EXPECT_TRUE(prediction.fits) << prediction.reason;
  if (!prediction.fits) return outcome;
  Trainer trainer(graph, chosen, optimizer_of(pipeline), {.seed = 3, .clip = 1});
  for (uint64_t step = 0; step < 3; ++step) outcome.losses.push_back(trainer.step(batch(step)).loss);
  for (size_t i = 0; i < chosen.devices.size(); ++i) EXPECT_EQ(chosen.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes);
  const auto evaluation = trainer.evaluate(batch(kEvaluationSeed), true);
  outcome.losses.push_back(evaluation.loss_sum);
  for (const auto& [name, output] : evaluation.outputs)
    for (const double value : output.to_vector()) outcome.outputs.push_back(value);
  outcome.hash = trainer.weights_hash();
  return outcome;
}

void expect_one_answer(const layers::Graph& graph, const BatchMaker& batch, const Optimizer* optimizer) {
  const Outcome first = train(graph, batch, {.optimizer = optimizer});
  for (const int devices : {1, 2, 3, 4})
    for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b})
      for (const Remat remat : {Remat::none, Remat::full})
        EXPECT_EQ(train(graph, batch, {.devices = devices, .schedule = schedule, .remat = remat, .optimizer = optimizer}), first);
}

void expect_one_answer_of_every_schedule(const layers::Graph& graph, const BatchMaker& batch) {
  const Outcome first = train(graph, batch, {});
  std::vector<Pipeline> pipelines;
  for (const int devices : {1, 2, 4}) {
    for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1, NamedSchedule::zb_v})
      pipelines.push_back({.devices = devices, .schedule = schedule});
    pipelines.push_back({.devices = devices, .schedule = kOpen});
    for (const int stages : {2, 3}) pipelines.push_back({.devices = devices, .schedule = {NamedSchedule::interleaved, stages}});
    const std::string table = schedule_csv(shuffled_schedule(devices, 2 * devices, kMicroBatches, 1));
    pipelines.push_back({.devices = devices, .schedule = parse_schedule_csv(table, "mine.csv")});
  }
  for (Pipeline& pipeline : pipelines)
    for (const RematChoice& remat : {RematChoice(Remat::none), {Remat::full}, {kOpen}}) {
      pipeline.remat = remat;
      EXPECT_EQ(train(graph, batch, pipeline), first);
    }
}

void expect_states_as_searches_count_them(const layers::Graph& graph, int64_t samples, Precision precision, const Optimizer& optimizer) {
  const ModelCost costs = model_bytes(graph, samples / kMicroBatches, precision, DeviceKind::cpu, optimizer);
  const Topology topology = topology_of(graph);
  const int nodes = topology.node_count();
  for (int cut = 1; cut < nodes; ++cut) {
    PlanOptions options{.batch = samples, .micro_batches = kMicroBatches, .precision = precision};
    options.partition = Partition{{cut, nodes - cut}};
    const Prediction prediction = predict(graph, plan(graph, cpus(2), options), optimizer, samples, {});
    for (const int stage : {0, 1}) {
      const auto& device = prediction.devices[static_cast<size_t>(stage)];
      const StageCost believed = stage_cost(topology, costs, stage == 0 ? 0 : cut, stage == 0 ? cut : nodes, std::vector<bool>(nodes));
      EXPECT_EQ(believed.state_bytes, device.parameter_bytes + device.gradient_bytes + device.optimizer_bytes)
          << name_of(precision) << ", cut " << cut << ", stage " << stage;
    }
  }
}

Schedule shuffled_schedule(int devices, int stages, int micro_batches, unsigned seed) {
  Schedule schedule{"shuffled", micro_batches, {}, std::vector<std::vector<ComputeAction>>(devices)};
  for (int stage = 0; stage < stages; ++stage) schedule.device_of_stage.push_back(stage % devices);
  std::vector<int> forwards(stages, 0), backwards(stages, 0);
  std::mt19937 random(seed);
  for (int left = 2 * stages * micro_batches; left > 0;) {
    const auto stage = static_cast<int>(random() % stages);
    const bool forward = random() % 2 == 0;
    int& done = forward ? forwards[stage] : backwards[stage];
    const int neighbour = forward ? stage - 1 : stage + 1;
    const bool has_input = neighbour < 0 || neighbour == stages || (forward ? forwards : backwards)[neighbour] > done;
    if (done == micro_batches || !has_input || (!forward && forwards[stage] <= done)) continue;
    auto& order = schedule.devices[stage % devices];
    order.push_back({forward ? Compute::forward : stage % 2 ? Compute::input_gradient : Compute::backward, stage, done});
    if (order.back().kind == Compute::input_gradient) order.push_back({Compute::weight_gradient, stage, done});
    ++done;
    --left;
  }
  return schedule;
}

}  // namespace sluice::testing
