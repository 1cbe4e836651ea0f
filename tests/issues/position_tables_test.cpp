// Tables of positions were computed again at every forward and backward, by one thread, and no plan counted them.
#include <gtest/gtest.h>

#include "autograd/ops/rotary.h"
#include "core/ops/sinusoids.h"
#include "layers/attention.h"
#include "layers/tables.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/run/batch_shape.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using models::PositionEncoding;
constexpr int kSamples = 4;

models::TransformerOptions options_of(PositionEncoding positions) {
  auto options = testing::tiny_transformer_options();
  options.positions = positions;
  return options;
}

/// What a device counts for the table of all its attentions, and for the one of its embedding.
int64_t table_bytes(const models::TransformerOptions& options) {
  const int64_t width = options.positions == PositionEncoding::rotary ? options.dim / options.heads : options.dim;
  return Device::charged_size(options.context * width * 4);
}

Plan plan_of(const layers::Graph& graph, const std::string& names, int micro_batches = 2) {
  return plan(graph, devices(names), {.batch = kSamples, .micro_batches = micro_batches});
}

TEST(PositionTables, AreOneOnADeviceFromTheStart) {
  for (const auto positions : {PositionEncoding::rotary, PositionEncoding::sinusoidal}) {
    const auto options = options_of(positions);
    const layers::Graph graph = models::transformer_lm(options);
    const Plan chosen = plan_of(graph, "meta:0");
    Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
    int64_t placed = 0;
    for (const auto& parameter : trainer.placements()) placed += parameter.value_bytes;
    EXPECT_EQ(chosen.devices[0]->live_bytes() - placed, table_bytes(options)) << static_cast<int>(positions);
    trainer.step(meta_batch(graph, kSamples));
    EXPECT_EQ(chosen.devices[0]->live_bytes() - placed, table_bytes(options)) << static_cast<int>(positions) << ", after a step";
  }
}

TEST(PositionTables, AreSharedByTheStagesOfADevice) {
  const layers::Graph graph = models::transformer_lm(options_of(PositionEncoding::rotary));
  const Plan chosen =
      plan(graph, devices("meta:0,meta:1"), {.batch = kSamples, .micro_batches = 2, .schedule = {NamedSchedule::interleaved, 2}});
  ASSERT_GT(chosen.partition.stage_count(), 2);
  Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
  std::vector<int64_t> others(2, 0);
  for (size_t i = 0; i < 2; ++i) others[i] = chosen.devices[i]->live_bytes();
  for (const auto& parameter : trainer.placements()) others[parameter.device] -= parameter.value_bytes;
  for (int64_t bytes : others) EXPECT_TRUE(bytes == table_bytes(options_of(PositionEncoding::rotary)) || bytes == 0) << bytes;
}

/// The bytes and operations of a training of three steps and an evaluation, against those that its plan counted in one step.
TEST(PositionTables, AreInThePredictedBytesAndInNoStepsCost) {
  for (const auto positions : {PositionEncoding::rotary, PositionEncoding::sinusoidal})
    for (const char* names : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"}) {
      const auto options = options_of(positions);
      const layers::Graph graph = models::transformer_lm(options);
      const Plan chosen = plan_of(graph, names);
      const Prediction prediction = predict(graph, chosen, SGD({.lr = 0.1}), kSamples, {});
      Trainer trainer(graph, chosen, SGD({.lr = 0.1}));
      trainer.evaluate(testing::token_batch(options, kSamples, 7));
      for (uint64_t step : {1, 2, 3})
        EXPECT_EQ(trainer.step(testing::token_batch(options, kSamples, step)).flops, prediction.flops)
            << static_cast<int>(positions) << " on " << names;
      for (size_t i = 0; i < chosen.devices.size(); ++i)
        EXPECT_EQ(chosen.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes)
            << static_cast<int>(positions) << " on " << names << ", device " << i;
    }
}

TEST(PositionTables, CountOnceInTheSearchesModelOfAStage) {
  const auto options = options_of(PositionEncoding::rotary);
  const layers::Graph with = models::transformer_lm(options), without = models::transformer_lm(options_of(PositionEncoding::learned));
  const ModelCost model = model_bytes(with, 1, Precision::f32, DeviceKind::cpu, SGD({}));
  ASSERT_EQ(model.shared.size(), 1);
  EXPECT_EQ(model.shared[0].bytes, table_bytes(options));
  EXPECT_EQ(model.shared[0].nodes.size(), static_cast<size_t>(options.layers));
  const Topology topology = topology_of(with);
  const std::vector<bool> none(topology.node_count(), false);
  ModelCost bare = model;
  bare.shared.clear();
  for (int first : {0, topology.node_count() - 1}) {
    const int64_t more = stage_cost(topology, model, first, topology.node_count(), none).state_bytes -
                         stage_cost(topology, bare, first, topology.node_count(), none).state_bytes;
    EXPECT_EQ(more, first == 0 ? table_bytes(options) : 0);
  }
}

TEST(PositionTables, AreTheSameForEveryNumberOfThreads) {
  const SinusoidTable table{.count = 300, .width = 34};
  const auto made = [&](int threads) { return sinusoids(table, DType::f32, make_device("cpu:0", {.threads = threads})).to_vector(); };
  EXPECT_EQ(made(1), made(3));
}

TEST(PositionTables, ThatAreMissingTooShortOrElsewhereAreRefused) {
  const layers::MultiHeadAttention attention({.width = 8, .heads = 2, .rotary = true, .context = 3});
  layers::Call call;
  for (const auto& parameter : attention.parameters()) call.parameters.emplace_back(zeros(parameter.shape));
  call.inputs = {Var(zeros({1, 4, 8}))};
  expect_error<UsageError>([&] { attention.forward(call); }, {"MultiHeadAttention", "layers::Tables"});
  call.tables = layers::Tables(default_device(), DType::f32).of(attention);
  expect_error<UsageError>([&] { attention.forward(call); }, {"at most 3 tokens", "got 4"});
  expect_error<UsageError>([&] { rotary(Var(zeros({1, 4, 2, 4})), 2, call.tables[0]); }, {"rotary", "[at least 4, 4]", "[3, 4]"});
  const Tensor elsewhere = sinusoids({.count = 4, .width = 4}, DType::f32, make_device("cpu:1"));
  expect_error<UsageError>([&] { rotary(Var(zeros({1, 4, 2, 4})), 2, elsewhere); }, {"rotary", "on cpu:0", "on cpu:1"});
  expect_error<UsageError>([] { layers::MultiHeadAttention({.width = 8, .heads = 2, .rotary = true}); }, {"context > 0"});
}

}  // namespace
}  // namespace sluice::parallel
