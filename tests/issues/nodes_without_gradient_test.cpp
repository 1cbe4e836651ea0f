// Nodes whose values have no gradient changed the weights under some partitions, or ended the step with an internal error: a stage summed
// and named the contributions to a gradient otherwise than the program that it ran.
#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "core/ops/argmax.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using layers::CrossEntropy;
using layers::Graph;
using layers::Linear;
using layers::Value;

/// The most likely class, which has no gradient: a metric.
class Prediction : public layers::Module {
 public:
  Var forward(const layers::Call& call) const override { return argmax(call.inputs[0].value()); }
};

/// x as a constant.
class Detach : public layers::Module {
 public:
  Var forward(const layers::Call& call) const override { return call.inputs[0].value(); }
};

Batch image_batch(int64_t samples, uint64_t seed) {
  const Tensor image = empty({samples, 6});
  fill_normal(image, 0, 1, random_key(seed, "image"));
  return batch_of({{"image", image}, {"label", sluice::testing::random_tokens({samples}, 5, seed)}});
}

std::string trained(const Graph& graph, const std::vector<int>& sizes) {
  std::string names = "cpu:0";
  for (size_t i = 1; i < sizes.size(); ++i) names += ",cpu:" + std::to_string(i);
  const PlanOptions options{.batch = 6, .micro_batches = 2, .partition = Partition{sizes}};
  Trainer trainer(graph, plan(graph, devices(names), options), SGD({.lr = 0.1}), {.seed = 1});
  for (uint64_t seed : {1, 2}) trainer.step(image_batch(6, seed));
  return trainer.weights_hash();
}

void expect_one_answer(const Graph& graph, const std::vector<std::vector<int>>& partitions) {
  const std::string one_device = trained(graph, {static_cast<int>(graph.nodes().size())});
  for (const auto& sizes : partitions) EXPECT_EQ(trained(graph, sizes), one_device) << sizes.size() << " stages, the first of " << sizes[0];
}

std::vector<std::vector<int>> all_cuts(int nodes) {
  std::vector<std::vector<int>> cuts;
  for (int marks = 0; marks < 1 << (nodes - 1); ++marks) {
    cuts.push_back({1});
    for (int node = 1; node < nodes; ++node)
      if (marks >> (node - 1) & 1)
        cuts.back().push_back(1);
      else
        ++cuts.back().back();
  }
  return cuts;
}

TEST(NodesWithoutGradient, AMetricOffTheLossPathChangesNoWeight) {
  Graph graph;
  const Value image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const Value a = graph.add("a", Linear(6, 5), image);
  const Value b = graph.add("b", Linear(5, 5), a);
  const Value both = graph.add("both", testing::Sum(), {a, b});
  graph.add("metric", Prediction(), a);
  const Value logits = graph.add("logits", Linear(5, 5), both);
  const Value sum = graph.add("sum", testing::Sum(), {logits, both});
  graph.loss(graph.add("loss", CrossEntropy(), {sum, label}));
  expect_one_answer(graph, {{1, 2, 4}});
  expect_one_answer(graph, all_cuts(7));
}

TEST(NodesWithoutGradient, AMetricMayStandDirectlyBeforeTheLoss) {
  Graph graph;
  const Value image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const Value hidden = graph.add("hidden", Linear(6, 8), image);
  const Value logits = graph.add("logits", Linear(8, 5), hidden);
  graph.add("metric", Prediction(), logits);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  expect_one_answer(graph, {{2, 2}});
  expect_one_answer(graph, all_cuts(4));
}

/// A detached teacher shares its parameters with the student.
Graph teacher_graph(bool has_shapes) {
  Graph graph;
  const Value image = has_shapes ? graph.input("image", {6}) : graph.input("image");
  const Value label = has_shapes ? graph.input("label", {}, DType::i32) : graph.input("label");
  const Value student = graph.add("student", Linear(6, 5), image);
  const Value teacher = graph.add("teacher", Linear(6, 5), image);
  const Value target = graph.add("target", Detach(), teacher);
  const Value both = graph.add("both", testing::Sum(), {student, target});
  graph.loss(graph.add("loss", CrossEntropy(), {both, label}));
  graph.tie("student.weight", "teacher.weight");
  graph.tie("student.bias", "teacher.bias");
  return graph;
}

TEST(NodesWithoutGradient, AParameterMayBeTiedToANodeWhoseValueIsAConstant) { expect_one_answer(teacher_graph(true), all_cuts(5)); }

// Then nothing can be known of the modules' gradients beforehand.
TEST(NodesWithoutGradient, GivesTheSameAnswerWhereInputsHaveNoShape) {
  expect_one_answer(teacher_graph(false), all_cuts(5));
  EXPECT_EQ(trained(teacher_graph(false), {1, 1, 1, 2}), trained(teacher_graph(true), {5}));
}

TEST(NodesWithoutGradient, AParameterThatOnlyAConstantIsMadeOfIsRefused) {
  Graph graph;
  const Value image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const Value frozen = graph.add("frozen", Linear(6, 5), image);
  const Value target = graph.add("target", Detach(), frozen);
  const Value logits = graph.add("logits", Linear(5, 5), target);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  expect_error<UsageError>([&] { trained(graph, {4}); }, {"node 'frozen'", "does not depend on it", "'frozen.weight'"});
}

TEST(NodesWithoutGradient, AParameterMayBeTiedToANodeOffTheLossPath) {
  Graph graph;
  const Value image = graph.input("image", {6}), label = graph.input("label", {}, DType::i32);
  const Value probe = graph.add("probe", Linear(6, 5), image);
  const Value logits = graph.add("logits", Linear(6, 5), image);
  graph.add("metric", Prediction(), probe);
  graph.loss(graph.add("loss", CrossEntropy(), {logits, label}));
  graph.tie("probe.weight", "logits.weight");
  graph.tie("probe.bias", "logits.bias");
  expect_one_answer(graph, all_cuts(4));
}

}  // namespace
}  // namespace sluice::parallel
