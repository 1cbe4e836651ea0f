// Float inputs of a graph were rounded to bf16 with the activations: 999 became 1000.
#include <gtest/gtest.h>

#include "core/ops/copy.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/cross_entropy.h"
#include "layers/dropout.h"
#include "layers/embedding.h"
#include "layers/feed_forward.h"
#include "layers/linear.h"
#include "layers/normalization.h"
#include "layers/pooling.h"
#include "layers/squeeze_excitation.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"

namespace sluice::parallel {
namespace {

using namespace layers;

constexpr int64_t kSamples = 4;

class Identity : public Module {
 public:
  Var forward(const Call& call) const override { return call.inputs[0]; }
};

Plan plan_in_bf16(const Graph& graph, const std::string& on = "cpu:0", Remat remat = Remat::none) {
  return plan(graph, devices(on),
              {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform, .remat = remat, .precision = Precision::bf16});
}

/// A classifier that begins with `first`, whose output has four channels, on images in the given dtype.
template <class M>
Graph classifier(M first, DType dtype) {
  Graph graph;
  const Value image = graph.input("image", {3, 3, 4}, dtype), label = graph.input("label", {}, DType::i32);
  Value x = graph.add("first", std::move(first), image);
  x = graph.add("second", Linear(4, 5), graph.add("average", GlobalAveragePool(), x));
  graph.output(x);
  graph.loss(graph.add("loss", CrossEntropy(), {x, label}));
  return graph;
}

Batch images(DType dtype) {
  const Tensor image = empty({kSamples, 3, 3, 4});
  fill_normal(image, 0, 1, random_key(1, "image"));
  return batch_of({{"image", cast(image, dtype)}, {"label", tensor_of({0, 1, 2, 3}, {kSamples}, DType::i32)}});
}

std::string hash_after_training(const Graph& graph, DType dtype, const std::string& on, Remat remat) {
  const AdamW optimizer({.lr = 1e-2});
  const Plan chosen = plan_in_bf16(graph, on, remat);
  const Prediction predicted = predict(graph, chosen, optimizer, kSamples, {});
  Trainer trainer(graph, chosen, optimizer, {.seed = 1});
  for (int step = 0; step < 3; ++step) trainer.step(images(dtype));
  for (size_t device = 0; device < chosen.devices.size(); ++device)
    EXPECT_EQ(chosen.devices[device]->peak_bytes(), predicted.devices[device].peak_bytes) << on << ", remat " << name_of(remat);
  return trainer.weights_hash();
}

/// A layer that takes an image itself computes on it as bf16, as if the image had come so.
template <class M>
void expect_to_train_as_on_rounded_images(const M& first) {
  const std::string hash = hash_after_training(classifier(first, DType::bf16), DType::bf16, "cpu:0", Remat::none);
  EXPECT_EQ(hash_after_training(classifier(first, DType::f32), DType::f32, "cpu:0", Remat::none), hash);
  EXPECT_EQ(hash_after_training(classifier(first, DType::f32), DType::f32, "cpu:0,cpu:1", Remat::full), hash);
}

TEST(FloatInputs, KeepTheirDtypeInBf16) {
  Graph graph;
  const Value time = graph.input("time", {1}), exact = graph.input("exact", {1}, DType::f64), label = graph.input("label", {}, DType::i32);
  graph.output(graph.add("seen", Identity(), time));
  graph.add("seen_exactly", Identity(), exact);
  graph.loss(graph.add("loss", CrossEntropy(), {graph.add("logits", Linear(1, 3), time), label}));
  Trainer trainer(graph, plan_in_bf16(graph), SGD({.lr = 0.1}));
  const std::vector<double> times{999, 1001, 0.1f, -3};
  const Batch batch = batch_of({{"time", tensor_of(times, {kSamples, 1})},
                                {"exact", tensor_of(times, {kSamples, 1}, DType::f64)},
                                {"label", zeros({kSamples}, DType::i32)}});
  EXPECT_EQ(trainer.evaluate(batch, true).output.to_vector(), times);
  trainer.step(batch);
}

TEST(FloatInputs, AreRoundedByTheLayersThatMultiplyThemWithWeights) {
  expect_to_train_as_on_rounded_images(Linear(4, 4));
  expect_to_train_as_on_rounded_images(LinearActivation(4, 4, Activation::Kind::gelu_tanh));
  expect_to_train_as_on_rounded_images(Conv2d(4, 4, {.size_h = 3, .size_w = 3}));
  expect_to_train_as_on_rounded_images(FactorizedReduction(4, 4));
  expect_to_train_as_on_rounded_images(BatchNorm(4));
  expect_to_train_as_on_rounded_images(LayerNorm(4));
  expect_to_train_as_on_rounded_images(RMSNorm(4));
  expect_to_train_as_on_rounded_images(SqueezeExcitation(4, 2));
  expect_to_train_as_on_rounded_images(Residual(Linear(4, 4), 0));
  expect_to_train_as_on_rounded_images(Residual(Linear(4, 4), 0.3));
}

TEST(FloatInputs, AreRoundedWhereLearnedPositionsAreAdded) {
  Call call;
  call.parameters = {Var(full({5, 4}, 0.25, DType::bf16))};
  call.inputs = {Var(full({2, 3, 4}, 999))};
  const Tensor y = Positions(Positions::Kind::learned, 5, 4).forward(call).value();
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(y.to_vector(), std::vector<double>(24, 1000));
}

TEST(FloatInputs, InAnotherDtypeThanDeclaredAreRefused) {
  const Graph graph = classifier(Linear(4, 4), DType::f32);
  Trainer trainer(graph, plan(graph, devices("cpu:0"), {.batch = kSamples}), SGD({.lr = 0.1}));
  expect_error<UsageError>([&] { trainer.step(images(DType::f64)); }, {"input 'image'", "f32", "f64"});
  expect_error<UsageError>([&] { trainer.step(images(DType::bf16)); }, {"input 'image'", "f32", "bf16"});
}

}  // namespace
}  // namespace sluice::parallel
