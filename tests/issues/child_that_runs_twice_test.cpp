// A child that a module ran twice drew the same mask twice, and only its last run changed the running statistics.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "layers/batch_norm.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/linear.h"
#include "parallel/trainer.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 6;

/// norm(x) + norm(2 x + 1): one norm, which sees both.
class NormOfBoth : public Composite {
 public:
  NormOfBoth() : norm_(add("norm", BatchNorm(3))), dropout_(add("dropout", Dropout(0.4))) {}
  Var forward(const Call& call) const override {
    const Var& x = call.inputs[0];
    const Var moved = sluice::add(scale(x, 2), Var(full({1}, 1, DType::f32, x.value().device_ptr())));
    const Var first = run(call, norm_, {x}), second = run(call, norm_, {moved});
    return sluice::add(run(call, dropout_, {first}), run(call, dropout_, {second}));
  }

 private:
  int norm_, dropout_;
};

Graph shared_norm() {
  Graph graph;
  const Value x = graph.input("x", {3}), label = graph.input("label", {}, DType::i32);
  const Value y = graph.add("logits", Linear(3, 4), graph.add("both", Sequence().then("inner", NormOfBoth()), x));
  graph.loss(graph.add("loss", CrossEntropy(), {y, label}));
  return graph;
}

Batch batch() {
  const Tensor x = empty({kSamples, 3});
  fill_normal(x, 0.5, 2, random_key(1, "x"));
  return batch_of({{"x", x}, {"label", tensor_of({0, 1, 2, 3, 0, 1}, {kSamples}, DType::i32)}});
}

std::unique_ptr<Trainer> trained(int micro_batches, Remat remat, const std::string& on, int steps) {
  const Graph graph = shared_norm();
  const Plan chosen =
      plan(graph, devices(on), {.batch = kSamples, .micro_batches = micro_batches, .partition = PartitionRule::uniform, .remat = remat});
  const AdamW optimizer({.lr = 1e-2});
  auto trainer = std::make_unique<Trainer>(graph, chosen, optimizer, TrainerOptions{.seed = 5});
  const Prediction predicted = predict(graph, chosen, optimizer, kSamples, {});
  for (int step = 0; step < steps; ++step) trainer->step(batch());
  for (size_t device = 0; device < chosen.devices.size(); ++device)
    EXPECT_EQ(chosen.devices[device]->peak_bytes(), predicted.devices[device].peak_bytes) << on << ", remat " << name_of(remat);
  return trainer;
}

TEST(ChildThatRunsTwice, ChangesTheStatisticsByAllThatItSaw) {
  const std::vector<double> x = batch().load("x", 0, kSamples).to_vector();
  for (const Remat remat : {Remat::none, Remat::full})
    for (int micro_batches : {1, 3}) {
      const auto model = trained(micro_batches, remat, "cpu:0", 1)->model();
      for (size_t c = 0; c < 3; ++c) {
        std::vector<double> seen;
        for (size_t i = c; i < x.size(); i += 3) seen.insert(seen.end(), {x[i], 2 * x[i] + 1});
        double mean = 0, squares = 0;
        for (double value : seen) mean += value / static_cast<double>(seen.size());
        for (double value : seen) squares += (value - mean) * (value - mean);
        EXPECT_NEAR(model.at("both.inner.norm.running_mean").to_vector()[c], 0.1 * mean, 1e-6)
            << name_of(remat) << ", M = " << micro_batches;
        EXPECT_NEAR(model.at("both.inner.norm.running_variance").to_vector()[c], 0.9 + 0.1 * squares / static_cast<double>(seen.size() - 1),
                    1e-5)
            << name_of(remat) << ", M = " << micro_batches;
      }
    }
}

TEST(ChildThatRunsTwice, HasOneAnswerForEveryPipeline) {
  const std::string hash = trained(2, Remat::none, "cpu:0", 3)->weights_hash();
  EXPECT_EQ(trained(2, Remat::full, "cpu:0", 3)->weights_hash(), hash);
  EXPECT_EQ(trained(2, Remat::none, "cpu:0,cpu:1", 3)->weights_hash(), hash);
  EXPECT_EQ(trained(2, Remat::full, "cpu:0,cpu:1,cpu:2", 3)->weights_hash(), hash);
}

}  // namespace
}  // namespace sluice::parallel
