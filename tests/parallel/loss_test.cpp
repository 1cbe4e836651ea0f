// Each loss has one answer for every pipeline and number of micro-batches: promises 1 to 3 of docs/design.md on the losses of users.
#include "layers/loss.h"

#include <gtest/gtest.h>

#include <functional>

#include "autograd/ops/elementwise.h"
#include "core/ops/comparison.h"
#include "core/ops/softmax.h"
#include "core/random.h"
#include "layers/activation.h"
#include "layers/combine.h"
#include "layers/loss_sum.h"
#include "layers/losses.h"
#include "parallel/trainer.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 8, kWidth = 4;

/// What a user may write: log(2 cosh(x - t)) of the elements whose target is above 0.2.
class LogCosh : public Loss {
 protected:
  Var losses(const Call& call) const override {
    const Var d = abs(sub(call.inputs[0], call.inputs[1]));
    return add(d, log(add(exp(scale(d, -2)), 1)));
  }
  Tensor weights(const std::vector<Tensor>& inputs) const override { return greater(inputs[1], 0.2); }
};

/// A loss that reads some of {prediction, a hidden value, target, label, weight, another hidden value}.
struct LossNode {
  std::string name;
  std::function<Value(Graph&, const std::vector<Value>&)> add_to;
};

template <class M>
LossNode loss_node(const std::string& name, const M& module, std::vector<int> reads) {
  return {name, [module, reads](Graph& graph, const std::vector<Value>& values) {
            std::vector<Value> read;
            for (int number : reads) read.push_back(values[static_cast<size_t>(number)]);
            return graph.add("loss", module, read);
          }};
}

std::vector<LossNode> loss_nodes() {
  return {
      loss_node("MeanSquaredError", MeanSquaredError(), {0, 2, 4}),
      loss_node("MeanAbsoluteError", MeanAbsoluteError(), {0, 2, 4}),
      loss_node("Huber", Huber(0.5), {0, 2}),
      loss_node("BinaryCrossEntropy", BinaryCrossEntropy(), {0, 2, 4}),
      loss_node("KLDivergence", KLDivergence(), {0, 2}),
      loss_node("TripletMargin, of nodes alone", TripletMargin(), {0, 1, 5}),
      loss_node("LogCosh", LogCosh(), {0, 2}),
      loss_node(
          "LossSum",
          LossSum().with("label", CrossEntropy(), 1, {0, 1}).with("place", Huber(), 0.5, {0, 2, 3}).with("all", LogCosh(), 0.1, {4, 2}),
          {0, 3, 2, 4, 1}),
  };
}

Graph graph_of(const LossNode& loss) {
  Graph graph;
  const Value x = graph.input("x", {kWidth}), target = graph.input("target", {kWidth});
  const Value label = graph.input("label", {}, DType::i32), weight = graph.input("weight", {});
  const Value hidden = graph.add("hidden", Sequence().then("linear", Linear(kWidth, 6)).then("tanh", Tanh()), x);
  const Value a = graph.add("a", Linear(6, kWidth), hidden), b = graph.add("b", Linear(6, kWidth), hidden);
  const Value y = graph.add("y", Linear(kWidth, kWidth), graph.add("sum", Add(), {a, b}));
  graph.output(y);
  graph.loss(loss.add_to(graph, {y, a, target, label, weight, b}));
  return graph;
}

Batch batch_of_losses(uint64_t seed) {
  const Tensor x = empty({kSamples, kWidth}), target = empty({kSamples, kWidth});
  fill_normal(x, 0, 1, random_key(seed, "x"));
  fill_normal(target, 0, 1, random_key(seed, "target"));
  return batch_of({{"x", x},
                   {"target", softmax(target)},
                   {"label", tensor_of({0, 3, -100, 1, -100, -100, 2, 1}, {kSamples}, DType::i32)},
                   {"weight", tensor_of({1, 0, 2, 0.5, 1, 3, 0, 1}, {kSamples})}});
}

TEST(Loss, HasOneAnswerForEveryPipeline) {
  for (const auto& loss : loss_nodes()) {
    SCOPED_TRACE(loss.name);
    sluice::testing::expect_one_answer(graph_of(loss), batch_of_losses);
  }
}

std::pair<StepResult, double> step_and_evaluation(const Graph& graph, int micro_batches, int stages, Precision precision = Precision::f32) {
  const char* names = stages == 1 ? "cpu:0" : "cpu:0,cpu:1";
  const Plan chosen =
      plan(graph, devices(names),
           {.batch = kSamples, .micro_batches = micro_batches, .partition = PartitionRule::uniform, .precision = precision});
  Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
  const StepResult step = trainer.step(batch_of_losses(1));
  const auto evaluated = trainer.evaluate(batch_of_losses(1));
  return {step, evaluated.loss_sum / evaluated.weight};
}

TEST(Loss, IsTheMeanOfTheMiniBatchWhateverTheMicroBatches) {
  for (const auto& loss : loss_nodes()) {
    const Graph graph = graph_of(loss);
    const auto [whole, evaluated_whole] = step_and_evaluation(graph, 1, 1);
    for (const int stages : {1, 2}) {
      const auto [parts, evaluated] = step_and_evaluation(graph, 8, stages);
      EXPECT_NEAR(parts.loss, whole.loss, 1e-6) << loss.name;
      EXPECT_NEAR(parts.gradient_norm, whole.gradient_norm, 1e-5) << loss.name;
      EXPECT_NEAR(evaluated, evaluated_whole, 1e-6) << loss.name;
    }
  }
}

TEST(Loss, IsCloseInHalfPrecision) {
  for (const auto& loss : loss_nodes()) {
    const Graph graph = graph_of(loss);
    const auto [exact, evaluated_exact] = step_and_evaluation(graph, 1, 1);
    const auto [rounded, evaluated] = step_and_evaluation(graph, 4, 2, Precision::bf16);
    EXPECT_NEAR(rounded.loss, exact.loss, 0.03) << loss.name;
    EXPECT_NEAR(evaluated, evaluated_exact, 0.03) << loss.name;
  }
}

}  // namespace
}  // namespace sluice::parallel
