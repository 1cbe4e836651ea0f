// What modules of the user's own make of a micro-batch: other shapes in evaluation, tensors of another device, values that look at elements,
// and parameters that only some micro-batches use.
#include <gtest/gtest.h>

#include <mutex>

#include "autograd/ops/operators.h"
#include "autograd/ops/reduction.h"
#include "autograd/ops/reshape.h"
#include "core/elements.h"
#include "core/random.h"
#include "layers/batch_norm.h"
#include "layers/lambda.h"
#include "layers/linear.h"
#include "layers/losses.h"
#include "parallel/group/thread_group.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

using layers::Call;
using layers::Graph;
using layers::Lambda;
using layers::Linear;

constexpr int64_t kSamples = 6;

Plan node_a_stage(const Graph& graph, int replicas = 1) {
  Plan plan;
  const auto nodes = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < nodes * replicas; ++i) plan.devices.push_back(std::make_shared<Device>(DeviceKind::cpu, i, Device::Options{}));
  plan.partition = partition_uniform(nodes, nodes);
  plan.micro_batches = 2;
  plan.rematerialize.assign(static_cast<size_t>(nodes), false);
  plan.replication = {.replicas = replicas, .fold_blocks = 2};
  return plan;
}

/// Tokens are dropped in training alone, and a norm reads its running statistics in evaluation.
Graph graph_that_drops_tokens() {
  Graph graph;
  const auto x = graph.input("x", {4, 3}), target = graph.input("target", {3});
  const auto kept = graph.add(
      "kept", Lambda("half", [](const Call& call) { return call.training ? slice(call.inputs[0], 1, 0, 2) : call.inputs[0]; }, {1, 1}),
      graph.add("embedding", Linear(3, 3), x));
  const auto norm = graph.add("norm", layers::BatchNorm(3), kept);
  const auto pooled = graph.add("pooled", Lambda("mean", [](const Var& y) { return mean(y, {1}); }), norm);
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {graph.add("out", Linear(3, 3), pooled), target}));
  return graph;
}

Batch batch_of_tokens() { return batch_of({{"x", randn({kSamples, 4, 3}, 1)}, {"target", randn({kSamples, 3}, 2)}}); }

TEST(ValuesOfModules, MayHaveOtherShapesInEvaluationOverRanksToo) {
  const Graph graph = graph_that_drops_tokens();
  Plan one = node_a_stage(graph);
  one.devices.resize(1);
  one.partition = Partition{{static_cast<int>(graph.nodes().size())}};
  Trainer trainer(graph, one, SGD({.lr = 0.1}));
  trainer.step(batch_of_tokens());
  const double expected = trainer.evaluate(batch_of_tokens()).loss_sum;
  run_ranks(static_cast<int>(graph.nodes().size()), [&](Group& group) {
    Trainer rank(graph, node_a_stage(graph), SGD({.lr = 0.1}),
                 {.timeout_seconds = 60, .group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group)});
    rank.step(batch_of_tokens());
    EXPECT_EQ(rank.evaluate(batch_of_tokens()).loss_sum, expected);
  });
}

Var on_the_host(const Var& x) { return full(x.shape(), 0.5); }

TEST(ValuesOfModules, OfAnotherDeviceAreRefusedWhereTheyAreMade) {
  Graph graph;
  const auto x = graph.input("x", {4}), of_no_shape = graph.input("of no shape");
  expect_error<UsageError>([&] { graph.add("constant", Lambda("half", on_the_host), x); },
                           {"node 'constant'", "Lambda 'half'::forward: needs to return a value on meta:0", "cpu:0", "Call::zeros()"});
  const auto constant = graph.add("constant", Lambda("half", on_the_host), of_no_shape);
  const auto sum = graph.add("sum", layers::Lambda("sum", [](const Var& a, const Var& b) { return a + b; }),
                             {graph.add("linear", Linear(4, 4), x), constant});
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {sum, x}));
  Trainer trainer(graph, node_a_stage(graph), SGD({.lr = 0.1}));
  const Tensor ones = full({kSamples, 4}, 1);
  expect_error<UsageError>(
      [&] {
        trainer.step(batch_of({{"x", ones}, {"of no shape", ones}}));
      },
      {"Lambda 'half'::forward: needs to return a value on cpu:0", "node 'constant', stage 0, micro-batch 0"});
}

Var of_elements(const Var& x) { return x * x.value().to_vector()[0]; }

TEST(ValuesOfModules, ThatLookAtElementsAreRefusedBetweenRanksWithTheCure) {
  Graph graph;
  const auto x = graph.input("x", {4});
  const auto looked = graph.add("looked", Lambda("first", of_elements), graph.add("linear", Linear(4, 4), x));
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {looked, x}));
  expect_error<UsageError>(
      [&] {
        run_ranks(3, [&](Group& group) {
          Trainer rank(graph, node_a_stage(graph), SGD({.lr = 0.1}),
                       {.timeout_seconds = 60, .group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group)});
          rank.step(batch_of({{"x", full({kSamples, 4}, 1)}}));
        });
      },
      {"'looked'", "looks at elements", "make it of shapes alone", "keep it on the rank that reads it"});
}

/// Scales where the second input begins with a number above 0.
class ScaleOfSome : public layers::Module {
 public:
  layers::InputCount input_count() const override { return {2, 2}; }
  std::vector<layers::ParameterSpec> parameters() const override { return {{"scale", {4}, layers::Initializer::ones()}}; }
  Var forward(const Call& call) const override {
    return call.inputs[1].value().to_vector()[0] > 0 ? call.inputs[0] * call.parameters[0] : call.inputs[0];
  }
};

TEST(ValuesOfModules, ThatLeaveOutAParameterInAllOfAReplicaAreRefusedWithTheCure) {
  Graph graph;
  const auto x = graph.input("x", {4}), wants = graph.input("wants", {});
  const auto scaled = graph.add("scaled", ScaleOfSome(), {graph.add("linear", Linear(4, 4), x), wants});
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {scaled, x}));
  const Batch batch = batch_of({{"x", full({4, 4}, 1)}, {"wants", tensor({1.0, 1.0, 0.0, 0.0})}});
  Trainer(graph, node_a_stage(graph), SGD({.lr = 0.1})).step(batch);
  Trainer replicas(graph, node_a_stage(graph, 2), SGD({.lr = 0.1}));
  expect_error<UsageError>([&] { replicas.step(batch); }, {"'scaled.scale' has no gradient of node 'scaled'", "of replica 1",
                                                           "use it in every micro-batch", "train with one replica"});
}

/// The weights after a step of a graph in which `mixed` joins what two layers made, and the second layer's value has another way, too.
std::string hash_after_a_step(const Lambda& mixed) {
  Graph graph;
  const auto x = graph.input("x", {4});
  const auto first = graph.add("first", Linear(4, 4), x), second = graph.add("second", Linear(4, 4), x);
  const auto sum = graph.add("sum", Lambda("sum", [](const Var& a, const Var& b) { return a + b; }),
                             {graph.add("mixed", mixed, {first, second}), second});
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {sum, x}));
  Trainer trainer(graph, node_a_stage(graph), SGD({.lr = 0.1}));
  trainer.step(batch_of({{"x", randn({kSamples, 4}, 1)}}));
  return trainer.weights_hash();
}

TEST(ValuesOfModules, HaveTheGradientsThatSeveralSamplesGiveThem) {
  const Lambda always("product", [](const Var& a, const Var& b) { return a * b; });
  const Lambda of_several("product", [](const Var& a, const Var& b) { return a.shape()[0] > 1 ? a * b : a; });
  EXPECT_EQ(hash_after_a_step(of_several), hash_after_a_step(always));
}

}  // namespace
}  // namespace sluice::parallel
