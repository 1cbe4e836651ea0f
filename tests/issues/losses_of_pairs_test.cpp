// A Loss whose inputs broadcast to pairs of samples, [B, 1] - [B], was taken, and what it made depended on the number of micro-batches.
#include <gtest/gtest.h>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/views.h"
#include "layers/linear.h"
#include "layers/loss.h"
#include "layers/loss_sum.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::layers {
namespace {

class Squares : public Loss {
 protected:
  Var losses(const Call& call) const override { return square(sub(call.inputs[0], call.inputs[1])); }
};

/// Of each sample, all pairs of its elements.
class PairsOfElements : public Loss {
 protected:
  Var losses(const Call& call) const override { return square(sub(unsqueeze(call.inputs[0], 2), unsqueeze(call.inputs[1], 1))); }
};

struct Model {
  explicit Model(int64_t width, const Shape& target) {
    const Value x = graph.input("x", {4});
    y = graph.input("y", target);
    linear = graph.add("linear", Linear(4, width), x);
    graph.output(linear);
  }
  Graph graph;
  Value y, linear;
};

TEST(LossesOfPairs, AreRefusedWithTheShapes) {
  Model model(1, {});
  const auto add = [&](auto loss) { model.graph.add("loss", std::move(loss), {model.linear, model.y}); };
  expect_error<UsageError>([&] { add(Squares()); },
                           {"'loss'", "Squares", "first axis", "[24, 24] of 24 samples", "[48, 48] of 48", "one shape"});
  expect_error<UsageError>([&] { add(LossSum().with("part", Squares(), 1, {0, 1})); }, {"'loss'", "[24, 24] of 24"});
  EXPECT_EQ(model.graph.nodes().size(), 1u);
}

TEST(LossesOfPairs, AreToldFromElementsThatAreAsManyByChance) {
  for (const int64_t width : {1, 24, 48}) {
    Model model(width, {width});
    const auto add = [&](std::string name, auto loss) {
      return model.graph.add(std::move(name), std::move(loss), {model.linear, model.y});
    };
    add("squares", Squares());
    add("pairs", PairsOfElements());
    model.graph.loss(add("loss", LossSum().with("squares", Squares(), 1, {0, 1}).with("pairs", PairsOfElements(), 0.1, {0, 1})));
  }
}

double loss_of(int micro_batches) {
  Model model(3, {3});
  model.graph.loss(model.graph.add("loss", PairsOfElements(), {model.linear, model.y}));
  const auto plan = parallel::plan(model.graph, devices("cpu:0"), {.batch = 8, .micro_batches = micro_batches});
  parallel::Trainer trainer(model.graph, plan, SGD({.lr = 0.1}), {.seed = 1});
  return trainer.step(batch_of({{"x", randn({8, 4}, 1)}, {"y", randn({8, 3}, 2)}})).loss;
}

TEST(LossesOfPairs, WithinASampleDoNotDependOnTheMicroBatches) { EXPECT_NEAR(loss_of(1), loss_of(4), 1e-5); }

}  // namespace
}  // namespace sluice::layers
