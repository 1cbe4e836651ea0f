// Random graphs under random plans: each gives the bits of one device, within the bytes that were predicted; and one device gives the
// gradients of plain autograd in f64.
#include "tests/parallel/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "autograd/backward.h"
#include "core/ops/elementwise.h"
#include "parallel/run/stage.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

using sluice::testing::Draw;
using sluice::testing::random_graph;
using sluice::testing::random_graph_batch;
using sluice::testing::RandomGraph;

constexpr int kPlans = 2400, kPlansAGraph = 4, kMostFailures = 5;
constexpr double kTolerance = 2e-6;  // of gradients in f32 against f64, of the largest

/// A graph with the mini-batch and the optimizer that its plans share.
struct Training {
  RandomGraph model;
  int64_t samples;
  std::vector<int> micro_batches;  ///< by step
  std::unique_ptr<Optimizer> optimizer;
  double clip = 0;
};

Training random_training(int number) {
  Draw draw(1000 + static_cast<uint64_t>(number));
  Training training{random_graph(static_cast<uint64_t>(number)), draw.from(4, 7), {draw.from(1, 4), draw.from(1, 4)}, nullptr};
  const int kind = draw.from(0, 2);
  if (kind == 0) training.optimizer = std::make_unique<SGD>(SGD::Options{.lr = 0.5});
  if (kind == 1) training.optimizer = std::make_unique<SGD>(SGD::Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  if (kind == 2) training.optimizer = std::make_unique<AdamW>(AdamW::Options{.lr = 1e-2});
  if (draw.one_in(4)) training.optimizer->ema = 0.9;
  if (draw.one_in(2)) training.clip = 1;
  if (draw.one_in(4)) training.optimizer->groups({{"logits.*", {.lr = 0.02}}, {"*", {.weight_decay = 0}}});
  return training;
}

std::vector<DevicePtr> cpus(int count) {
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i) devices.push_back(std::make_shared<Device>(DeviceKind::cpu, i, Device::Options{}));
  return devices;
}

Plan one_device(const Training& training) {
  Plan plan;
  const auto nodes = static_cast<int>(training.model.graph.nodes().size());
  plan.devices = cpus(1);
  plan.partition = Partition{{nodes}};
  plan.micro_batches = training.micro_batches[0];
  plan.rematerialize.assign(static_cast<size_t>(nodes), false);
  return plan;
}

Partition random_partition(int nodes, int stages, Draw& draw) {
  Partition partition{std::vector<int>(static_cast<size_t>(stages), 1)};
  for (int more = nodes - stages; more-- > 0;) ++partition.sizes[static_cast<size_t>(draw.from(0, stages - 1))];
  return partition;
}

/// An order that was searched, for stages anywhere.
SearchedSchedule searched_order(int stage_count, int devices, int micro_batches, Draw& draw) {
  const auto stages = static_cast<size_t>(stage_count);
  const auto seconds = [&] {
    std::vector<double> all(stages);
    for (double& cost : all) cost = draw.from(1, 9);
    return all;
  };
  const StageCosts costs{.forward = seconds(),
                         .backward = seconds(),
                         .input_gradient = seconds(),
                         .weight_gradient = seconds(),
                         .recompute = {},
                         .transfer = {},
                         .kept = {},
                         .kept_for_weights = {}};
  std::vector<int> placement(stages);
  for (size_t stage = 0; stage < stages; ++stage)
    placement[stage] = static_cast<int>(stage) < devices ? static_cast<int>(stage) : draw.from(0, devices - 1);
  for (size_t stage = stages; stage-- > 1;)
    std::swap(placement[stage], placement[static_cast<size_t>(draw.from(0, static_cast<int>(stage)))]);
  return {search_schedule(costs, placement, micro_batches).schedule, costs};
}

Plan random_plan(const Training& training, Draw& draw) {
  Plan plan = one_device(training);
  const int nodes = plan.partition.segments().node_count(), stages = draw.from(1, std::min(nodes, 5));
  plan.partition = random_partition(nodes, stages, draw);
  using enum NamedSchedule;
  auto named = draw.of<std::optional<NamedSchedule>>({gpipe, one_f_one_b, zb_h1, interleaved, zb_v, std::nullopt});
  if (named == zb_v && stages % 2 == 1) named = zb_h1;
  int devices = named == zb_v ? stages / 2 : named == interleaved || !named ? draw.from(1, stages) : stages;
  while (named == interleaved && stages % devices != 0) --devices;
  if (named)
    plan.schedule = *named;
  else
    plan.schedule = searched_order(stages, devices, plan.micro_batches, draw);
  plan.devices = cpus(devices);
  const int remat = draw.from(0, 3);
  for (auto&& mark : plan.rematerialize) mark = remat == 3 || (remat > 0 && draw.one_in(2));
  return plan;
}

/// What a training leaves that must not depend on its plan.
struct Outcome {
  std::vector<double> numbers;  ///< loss and gradient norm of each step, the loss and the outputs of an evaluation
  std::string hash;             ///< of weights and running statistics
  bool operator==(const Outcome&) const = default;
};

std::string listed(const auto& list) {
  std::string text;
  for (const auto item : list) text += join(text.empty() ? "" : " ", item);
  return text;
}

/// `bytes`  after the first step, by device: what it took at most.
Outcome outcome_of(const Training& training, const Plan& plan, std::vector<int64_t>& bytes) {
  Trainer trainer(training.model.graph, plan, *training.optimizer, {.seed = 7, .clip = training.clip, .timeout_seconds = 60});
  Outcome outcome;
  for (size_t step = 0; step < training.micro_batches.size(); ++step) {
    const StepResult result = trainer.step(random_graph_batch(training.samples, step), training.micro_batches[step]);
    outcome.numbers.insert(outcome.numbers.end(), {result.loss, result.gradient_norm});
    if (step == 0)
      for (const auto& device : plan.devices) bytes.push_back(device->peak_bytes());
  }
  const auto evaluation = trainer.evaluate(random_graph_batch(training.samples, 9), true);
  outcome.numbers.push_back(evaluation.loss_sum);
  for (double output : evaluation.output.to_vector()) outcome.numbers.push_back(output);
  outcome.hash = trainer.weights_hash();
  return outcome;
}

/// What is wrong with a plan; empty when nothing is.
std::string fault_of(const Training& training, const Plan& plan, const Outcome& one_device) try {
  std::vector<int64_t> predicted, measured;
  if (training.model.has_shapes)
    for (const auto& device : predict(training.model.graph, plan, *training.optimizer, training.samples, {}).devices)
      predicted.push_back(device.peak_bytes);
  const Outcome outcome = outcome_of(training, plan, measured);
  if (outcome.numbers[0] != one_device.numbers[0]) return "another loss than one device's";
  if (outcome.numbers[1] != one_device.numbers[1]) return "another gradient norm than one device's";
  if (outcome.hash != one_device.hash) return "other weights or running statistics than one device's";
  if (outcome != one_device) return "other losses or outputs than one device's";
  if (training.model.has_shapes && predicted != measured)
    return join("bytes of the devices are ", listed(measured), ", predicted were ", listed(predicted));
  return {};
} catch (const std::exception& error) {
  return join("an error: ", error.what());
}

std::string describe(const Training& training, const Plan& plan) {
  return join("\n  plan: ", name_of(plan.schedule), " over ", plan.devices.size(), " devices, nodes a stage ",
              listed(plan.partition.stage_sizes()), ", devices of the stages ", listed(device_of_stage(plan)), ", rematerialized ",
              listed(plan.rematerialize), ", micro-batches ", listed(training.micro_batches), " of ", training.samples, " samples, ",
              training.optimizer->name(), "\n  graph:", training.model.description);
}

/// A number from the environment.
int number_of(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : usual;
}

struct Range {
  int first, end;
};

Range plans_to_try() {
  const int only = number_of("SLUICE_RANDOM_PLAN", -1);
  return only >= 0 ? Range{only, only + 1} : Range{0, number_of("SLUICE_RANDOM_PLANS", kPlans)};
}

TEST(RandomGraphs, HaveEveryKindOfNode) {
  std::map<std::string, int> graphs{{"linear", 0},     {"normalized", 0}, {"norm(", 0},  {"lstm1", 0}, {"lstm2", 0},
                                    {"gru", 0},        {"two-way", 0},    {"-last(", 0}, {"table", 0}, {"times", 0},
                                    {"concat", 0},     {"dropout", 0},    {"detach", 0}, {"gate", 0},  {"argmax(", 0},
                                    {"argmax-i32", 0}, {"watch", 0},      {"~", 0},      {"!", 0}};
  for (int number = 0; number < kPlans / kPlansAGraph; ++number) {
    const std::string description = random_graph(static_cast<uint64_t>(number)).description;
    for (auto& [word, count] : graphs) count += description.find(word) != std::string::npos;
  }
  for (const auto& [word, count] : graphs) EXPECT_GE(count, 10) << word;
}

TEST(RandomGraphs, EveryPlanGivesTheBitsOfOneDeviceAndTakesTheBytesThatWerePredicted) {
  int failures = 0;
  const auto [first, end] = plans_to_try();
  for (int number = first; number < end && failures < kMostFailures;) {
    const Training training = random_training(number / kPlansAGraph);
    std::vector<int64_t> bytes;
    const Outcome expected = outcome_of(training, one_device(training), bytes);
    for (const int graph = number / kPlansAGraph; number < end && number / kPlansAGraph == graph && failures < kMostFailures; ++number) {
      Draw draw(static_cast<uint64_t>(number));
      const Plan plan = random_plan(training, draw);
      const std::string fault = fault_of(training, plan, expected);
      if (fault.empty()) continue;
      ++failures;
      ADD_FAILURE() << "plan " << number << " (alone: SLUICE_RANDOM_PLAN=" << number << ") has " << fault << describe(training, plan);
    }
  }
  RecordProperty("plans", end - first);
}

std::map<std::string, Tensor> weights_of(const Trainer& trainer) {
  std::map<std::string, Tensor> all;
  for (const auto& parameter : trainer.parameters())
    all[parameter.name] = tensor_of(parameter.value.to_vector(), parameter.value.shape(), DType::f64);
  return all;
}

/// The graph's loss over one micro-batch, its parameters in f64.
Var loss_in_f64(const Training& training, const Batch& batch, int64_t first, int64_t count, const std::vector<Var>& parameters) {
  const layers::Graph& graph = training.model.graph;
  std::vector<Var> values;
  for (const auto& input : graph.inputs()) {
    const Tensor x = batch.load(input.name, first, count);
    values.emplace_back(is_floating(x.dtype()) ? tensor_of(x.to_vector(), x.shape(), DType::f64) : x);
  }
  for (const auto& node : graph.nodes()) {
    layers::Call call;
    for (int value : node.inputs) call.inputs.push_back(values[static_cast<size_t>(value)]);
    for (int parameter : node.parameters) call.parameters.push_back(parameters[static_cast<size_t>(parameter)]);
    call.random = {random_key(7, node.name), 0, 0, static_cast<uint32_t>(first)};
    call.loss_scale = 1 / static_cast<double>(training.samples);
    values.push_back(node.module->forward(call));
  }
  return values[static_cast<size_t>(graph.value_of(graph.loss_node()))];
}

/// A step of one device against autograd over the graph as a whole; the largest deviation of a gradient, as a share of the largest one.
double deviation_from_autograd(const Training& training, double& loss_deviation) {
  Trainer trainer(training.model.graph, one_device(training), SGD({.lr = 1}), {.seed = 7});
  const auto before = weights_of(trainer);
  const Batch batch = random_graph_batch(training.samples, 0);
  const double loss = trainer.step(batch).loss;
  const auto after = weights_of(trainer);
  std::vector<Var> leaves;
  for (const auto& parameter : training.model.graph.parameters()) leaves.push_back(parameter.leaf(before.at(parameter.name)));
  std::vector<Tensor> sums(leaves.size());
  double expected_loss = 0;
  const auto bounds = micro_batch_bounds(training.samples, training.micro_batches[0]);
  for (size_t m = 0; m + 1 < bounds.size(); ++m) {
    const Var y = loss_in_f64(training, batch, bounds[m], bounds[m + 1] - bounds[m], leaves);
    expected_loss += y.value().item();
    const auto parts = gradients(y, full({}, 1, DType::f64), leaves);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].defined()) sums[i] = sums[i].defined() ? add(sums[i], parts[i]) : parts[i];
  }
  loss_deviation = std::abs(loss - expected_loss) / expected_loss;
  double largest = 1, deviation = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto& name = training.model.graph.parameters()[i].name;
    const auto old = before.at(name).to_vector(), now = after.at(name).to_vector();
    const auto expected = sums[i].defined() ? sums[i].to_vector() : std::vector<double>(old.size(), 0);  // frozen
    for (size_t e = 0; e < old.size(); ++e) {
      largest = std::max({largest, std::abs(old[e]), std::abs(expected[e])});
      deviation = std::max(deviation, std::abs(old[e] - now[e] - expected[e]));
    }
  }
  return deviation / largest;
}

TEST(RandomGraphs, OneDeviceGivesTheGradientsOfPlainAutogradInF64) {
  int failures = 0;
  double worst = 0;
  const auto [first, end] = plans_to_try();
  for (int number = first / kPlansAGraph; number * kPlansAGraph < end && failures < kMostFailures; ++number) {
    const Training training = random_training(number);
    double loss_deviation = 0;
    const double deviation = deviation_from_autograd(training, loss_deviation);
    worst = std::max({worst, deviation, loss_deviation});
    if (deviation <= kTolerance && loss_deviation <= kTolerance) continue;
    ++failures;
    ADD_FAILURE() << "graph " << number << " (alone: SLUICE_RANDOM_PLAN=" << number * kPlansAGraph << "): gradients deviate by "
                  << deviation << ", the loss by " << loss_deviation << describe(training, one_device(training));
  }
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace sluice::parallel
