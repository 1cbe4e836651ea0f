// Promises 1 and 3 of docs/design.md: the same bits for every partition, schedule and rematerialization, and bytes as predicted.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

struct Choice {
  int devices;
  std::string schedule, remat, partition = "uniform";
  int micro_batches = 4;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (int devices : {1, 2, 3, 4})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const char* remat : {"none", "full", "list"}) all.push_back({devices, schedule, remat});
  all.push_back({3, "1f1b", "none", "parameters"});
  all.push_back({3, "gpipe", "full", "auto"});
  return all;
}

std::string describe_choice(const Choice& choice) {
  return std::to_string(choice.devices) + " devices, " + choice.schedule + ", remat " + choice.remat + ", " + choice.partition;
}

struct Outcome {
  std::string hash;
  std::vector<double> losses;
  bool operator==(const Outcome&) const = default;
};

Plan make_plan(const layers::Graph& graph, const Choice& choice, int64_t batch, const std::vector<std::string>& remat_nodes) {
  std::string names;
  for (int i = 0; i < choice.devices; ++i) names += (i ? ",cpu:" : "cpu:") + std::to_string(i);
  PlanOptions options{.batch = batch,
                      .micro_batches = choice.micro_batches,
                      .schedule = choice.schedule,
                      .partition = choice.partition,
                      .remat = choice.remat,
                      .remat_nodes = remat_nodes};
  return plan(graph, devices(names), options);
}

template <class MakeBatch>
Outcome train(const layers::Graph& graph, const Choice& choice, int64_t samples, const std::vector<std::string>& remat_nodes,
              const MakeBatch& batch) {
  const AdamW optimizer({.lr = 1e-2});
  const Plan chosen = make_plan(graph, choice, samples, remat_nodes);
  Trainer trainer(graph, chosen, optimizer, {.seed = 3, .clip = 0.5});
  const Prediction prediction = predict(graph, chosen, optimizer, samples, {});
  Outcome outcome;
  for (uint64_t step = 0; step < 3; ++step) outcome.losses.push_back(trainer.step(batch(step)).loss);
  const auto evaluation = trainer.evaluate(batch(77));
  outcome.losses.push_back(evaluation.loss_sum / evaluation.weight);
  outcome.hash = trainer.weights_hash();
  for (size_t i = 0; i < chosen.devices.size(); ++i)
    EXPECT_EQ(chosen.devices[i]->peak_bytes(), prediction.devices[i].peak_bytes) << describe_choice(choice) << ", device " << i;
  return outcome;
}

TEST(OneAnswer, OfATransformerWithTiedEmbeddingsAndDropout) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const std::vector<std::string> remat_nodes{"block0.attention", "block1.feed_forward_in", "logits"};
  const Outcome first = train(graph, choices()[0], 8, remat_nodes, batch);
  for (const Choice& choice : choices()) EXPECT_EQ(train(graph, choice, 8, remat_nodes, batch), first) << describe_choice(choice);
}

TEST(OneAnswer, OfADagWithSkipsOverSeveralStages) {
  const layers::Graph graph = skip_graph();
  const auto batch = [&](uint64_t seed) { return skip_batch(10, seed); };
  const std::vector<std::string> remat_nodes{"a", "b", "f", "h"};
  const Outcome first = train(graph, choices()[0], 10, remat_nodes, batch);
  for (const Choice& choice : choices()) EXPECT_EQ(train(graph, choice, 10, remat_nodes, batch), first) << describe_choice(choice);
}

TEST(OneAnswer, AcrossMicroBatchesToRounding) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const Outcome whole = train(graph, {1, "gpipe", "none", "uniform", 1}, 8, {}, batch);
  for (int micro_batches : {2, 3, 8}) {
    const Outcome cut = train(graph, {2, "1f1b", "none", "uniform", micro_batches}, 8, {}, batch);
    for (size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5 * whole.losses[i]) << micro_batches << " micro-batches";
  }
}

TEST(OneAnswer, WithAnotherNumberOfMicroBatchesAtEveryStep) {
  const layers::Graph graph = skip_graph();
  const AdamW optimizer({.lr = 1e-2});
  std::vector<std::string> hashes;
  for (int devices : {1, 3}) {
    Trainer trainer(graph, make_plan(graph, {devices, "1f1b", "none"}, 10, {}), optimizer);
    for (int micro_batches : {4, 1, 7, 2}) {
      trainer.evaluate(skip_batch(5, 99));
      trainer.step(skip_batch(10, static_cast<uint64_t>(micro_batches)), micro_batches);
    }
    hashes.push_back(trainer.weights_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Trainer, LearnsAFixedBatch) {
  const layers::Graph graph = skip_graph();
  Trainer trainer(graph, make_plan(graph, {2, "1f1b", "none"}, 10, {}), AdamW({.lr = 2e-2}));
  const double first = trainer.step(skip_batch(10, 1)).loss;
  double last = first;
  for (int step = 0; step < 60; ++step) last = trainer.step(skip_batch(10, 1)).loss;
  EXPECT_LT(last, 0.5 * first);
}

TEST(Trainer, NamesDeviceNodeAndBytesWhenTheBudgetIsTooSmall) {
  const layers::Graph graph = skip_graph();
  Plan chosen = make_plan(graph, {2, "1f1b", "none"}, 10, {});
  chosen.devices[0]->set_budget_bytes(4096);  // one device alone: of two that run out, either may be the first
  const Prediction prediction = predict(graph, chosen, AdamW({.lr = 1e-2}), 10, {});
  EXPECT_FALSE(prediction.fits);
  try {
    Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}));
    trainer.step(skip_batch(10, 1));
    FAIL() << "needed OutOfMemory";
  } catch (const OutOfMemory& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("cpu:"), std::string::npos) << message;
    EXPECT_NE(message.find("node '"), std::string::npos) << message;
    EXPECT_NE(message.find("budget of 4096"), std::string::npos) << message;
    EXPECT_EQ(message, prediction.reason) << "the plan says what happens";
  }
}

TEST(Trainer, KeepsItsWeightsWhenABatchIsBadAndGoesOn) {
  const layers::Graph graph = skip_graph();
  Trainer trainer(graph, make_plan(graph, {3, "1f1b", "none"}, 10, {}), AdamW({.lr = 1e-2}));
  trainer.step(skip_batch(10, 1));
  const std::string before = trainer.weights_hash();
  Batch bad = skip_batch(10, 2);
  bad.load = [load = bad.load](const std::string& input, int64_t first, int64_t count) {
    if (input == "image") return zeros({count, 7});
    return load(input, first, count);
  };
  try {
    trainer.step(bad);
    FAIL() << "needed a UsageError";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("node 'stem', stage 0, micro-batch 0"), std::string::npos) << error.what();
  }
  EXPECT_EQ(trainer.weights_hash(), before);
  trainer.step(skip_batch(10, 3));
  EXPECT_NE(trainer.weights_hash(), before);
}

TEST(Trainer, RefusesGradientsThatAreNotFinite) {
  const layers::Graph graph = skip_graph();
  Trainer trainer(graph, make_plan(graph, {2, "gpipe", "none"}, 10, {}), AdamW({.lr = 1e-2}));
  const std::string before = trainer.weights_hash();
  Batch bad = skip_batch(10, 2);
  bad.load = [load = bad.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" ? full({count, 6}, NAN) : load(input, first, count);
  };
  EXPECT_THROW(trainer.step(bad), Error);
  EXPECT_EQ(trainer.weights_hash(), before);
}

}  // namespace
}  // namespace sluice::parallel
