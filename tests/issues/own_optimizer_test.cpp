// An own optimizer that knew nothing of the clip, of gradients that are not finite and of bf16 copies trained without all three, silently.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"
#include "layers/losses.h"
#include "parallel/plan/predict.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;

constexpr int64_t kSamples = 4;
constexpr double kRate = 0.5;

/// What a user writes first: parameter -= rate * gradient.
class PlainDescent : public Optimizer {
 public:
  PlainDescent() { rate.base = kRate; }
  std::string name() const override { return "plain"; }
  std::vector<std::string> state_names() const override { return {}; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override {
    for (const OptimizerSlot& slot : slots) copy(sub(slot.parameter, scale(slot.gradient, update.learning_rate)), slot.parameter);
  }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<PlainDescent>(*this); }
};

Trainer trainer_by(const Optimizer& optimizer, const char* list, Precision precision, double clip) {
  const auto graph = image_graph();
  PlanOptions options{.batch = kSamples, .micro_batches = 2};
  options.precision = precision;
  return Trainer(graph, plan(graph, devices(list), options), optimizer, {.seed = 5, .clip = clip});
}

/// Losses show what the model computes with: working copies that nobody writes would stay those of the start.
TEST(OwnOptimizer, TrainsAsAFusedOneWithClipAndWorkingCopies) {
  for (const Precision precision : {Precision::f32, Precision::bf16})
    for (const double clip : {0.0, 0.05})
      for (const char* list : {"cpu:0", "cpu:0,cpu:1"}) {
        Trainer own = trainer_by(PlainDescent(), list, precision, clip), fused = trainer_by(SGD({.lr = kRate}), list, precision, clip);
        double first = 0, last = 0;
        for (int step = 0; step < 4; ++step) {
          const double expected = fused.step(image_batch(kSamples, 1)).loss;
          last = own.step(image_batch(kSamples, 1)).loss;
          if (step == 0) first = last;
          EXPECT_NEAR(last, expected, 2e-3 * std::abs(expected)) << name_of(precision) << ", clip " << clip << ", " << list;
        }
        EXPECT_NE(first, last);
      }
}

/// a + b gives both the same gradient, and so one tensor.
class LinearOfASum : public layers::Module {
 public:
  std::vector<layers::ParameterSpec> parameters() const override {
    return {{"a", {4, 8}, layers::Initializer::uniform(-1, 1)}, {"b", {4, 8}, layers::Initializer::uniform(-1, 1)}};
  }
  Var forward(const layers::Call& call) const override { return linear(call.inputs[0], add(call.parameters[0], call.parameters[1])); }
};

TEST(OwnOptimizer, ClipsOnceWhatTwoParametersShare) {
  layers::Graph graph;
  const auto x = graph.input("x", {8}), target = graph.input("target", {4});
  graph.loss(graph.add("loss", layers::MeanSquaredError(), {graph.add("linear", LinearOfASum(), x), target}));
  const Batch batch = batch_of({{"x", randn({kSamples, 8}, 1)}, {"target", randn({kSamples, 4}, 2)}});
  for (const int micro_batches : {1, 2}) {
    const auto weights_after = [&](const Optimizer& optimizer) {
      Trainer trainer(graph, plan(graph, devices("cpu:0"), {.batch = kSamples, .micro_batches = micro_batches}), optimizer,
                      {.seed = 1, .clip = 0.01});
      trainer.step(batch);
      return trainer.parameters()[0].value.to_vector();
    };
    const auto own = weights_after(PlainDescent()), fused = weights_after(SGD({.lr = kRate}));
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_NEAR(own[i], fused[i], 1e-6) << "at " << i << " of " << micro_batches << " micro-batches";
  }
}

TEST(OwnOptimizer, ChangesNothingWhereTheGradientIsNotFinite) {
  const auto graph = image_graph();
  Trainer trainer(graph, plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2}), PlainDescent(),
                  {.seed = 5, .on_nonfinite = OnNonfinite::skip});
  trainer.step(image_batch(kSamples, 1));
  const std::string before = trainer.weights_hash();
  Batch spoilt = image_batch(kSamples, 2);
  spoilt.load = [load = spoilt.load](const std::string& input, int64_t first, int64_t count) {
    Tensor rows = load(input, first, count);
    if (rows.dtype() == DType::f32) rows = full(rows.shape(), std::numeric_limits<double>::infinity(), DType::f32);
    return rows;
  };
  EXPECT_TRUE(trainer.step(spoilt).was_skipped);
  EXPECT_EQ(trainer.weights_hash(), before);
}

TEST(OwnOptimizer, TakesTheBytesThatArePlanned) {
  const auto graph = image_graph();
  for (const double clip : {0.0, 1e-3, 1e6}) {
    Trainer trainer = trainer_by(PlainDescent(), "cpu:0,cpu:1", Precision::bf16, clip);
    trainer.step(image_batch(kSamples, 1));
    const auto predicted = predict(graph, trainer.plan(), PlainDescent(), kSamples, {}).devices;
    const auto taken = trainer.step(image_batch(kSamples, 2)).peak_bytes;
    for (size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], predicted[i].peak_bytes) << "clip " << clip << ", device " << i;
  }
}

/// Reads what the first parameter says of all.
class FirstOfAll : public PlainDescent {
 public:
  std::string name() const override { return "first of all"; }
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override {
    require(!slots.empty(), "first of all: was asked to step nothing");
    PlainDescent::apply(slots, update);
  }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<FirstOfAll>(*this); }
};

/// A device without parameters, and a group without one on a device, gave it an empty list.
TEST(OwnOptimizer, IsNotAskedToStepNothing) {
  const auto graph = image_graph();
  PlanOptions options{.batch = kSamples, .micro_batches = 2};
  options.partition = partition_given({7, 1}, 8);
  FirstOfAll optimizer;
  for (const bool grouped : {false, true}) {
    if (grouped) optimizer.groups({{"logits.*", {.lr = kRate / 2}}, {"stem.*", {.lr = kRate}}});
    Trainer(graph, plan(graph, devices("cpu:0,cpu:1"), options), optimizer).step(image_batch(kSamples, 1));
  }
}

class WithStates : public PlainDescent {
 public:
  explicit WithStates(std::vector<OptimizerState> states, bool whole = false) : states_(std::move(states)), whole_(whole) {}
  std::string name() const override { return "with states"; }
  std::vector<std::string> state_names() const override {
    std::vector<std::string> names;
    for (const OptimizerState& state : states_) names.push_back(state.name);
    return names;
  }
  /// A shape without axes stands for the parameter's.
  std::vector<OptimizerState> states_of(const Shape& parameter) const override {
    std::vector<OptimizerState> states = states_;
    for (OptimizerState& state : states)
      if (state.shape.rank() == 0) state.shape = parameter;
    return states;
  }
  bool needs_whole_parameters() const override { return whole_; }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<WithStates>(*this); }

 private:
  std::vector<OptimizerState> states_;
  bool whole_;
};

/// Of two states of one name a checkpoint kept one.
TEST(OwnOptimizer, IsRefusedWithTwoStatesOfOneName) {
  const auto graph = image_graph();
  const Plan one = plan(graph, devices("cpu:0"), {.batch = kSamples});
  expect_error<UsageError>(
      [&] {
        Trainer(graph, one, WithStates({{"m", {}}, {"v", {}}, {"m", {}}}));
      },
      {"with states", "states_of", "'m' twice"});
  EXPECT_NO_THROW(Trainer(graph, one, WithStates({{"m", {}}, {"v", {}}})));
}

/// Replicas each stepped a part of a parameter by a state of its own, and one of these was saved.
TEST(OwnOptimizer, IsRefusedWithStatesOfOtherShapesUnlessItNeedsWholeParameters) {
  const auto graph = image_graph();
  const Plan one = plan(graph, devices("cpu:0"), {.batch = kSamples});
  expect_error<UsageError>(
      [&] {
        Trainer(graph, one, WithStates({{"m", {}}, {"scale", {1}}}));
      },
      {"with states", "'scale' [1]", "needs_whole_parameters"});
  EXPECT_NO_THROW(Trainer(graph, one, WithStates({{"m", {}}, {"scale", {1}}}, true)));
}

}  // namespace
}  // namespace sluice::parallel
