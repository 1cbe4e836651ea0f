// Promises 1 and 3 of docs/design.md: the same bits for every partition, schedule and rematerialization, and bytes as predicted.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "parallel/schedule/named.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/pipelines.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::text_of;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

struct Choice {
  int devices;
  NamedSchedule schedule;
  RematChoice remat = Remat::none;
  PartitionChoice partition = PartitionRule::uniform;
  int micro_batches = 4;
  Precision precision = Precision::f32;
  bool stochastic_rounding = false;
  std::optional<int> weights_late{};  ///< the schedule's backwards are split, and each W comes so many backwards after its I

  int virtual_stages() const { return schedule == NamedSchedule::interleaved ? 2 : 1; }
};

using enum NamedSchedule;

/// With none, all and some of the nodes rematerialized.
std::vector<Choice> choices(const RematNodes& some) {
  std::vector<Choice> all;
  for (const RematChoice& remat : {RematChoice(Remat::none), {Remat::full}, {some}}) {
    for (int devices : {1, 2, 3, 4})
      for (const auto schedule : {gpipe, one_f_one_b}) all.push_back({devices, schedule, remat});
    for (int devices : {1, 2, 4})
      for (const auto schedule : {interleaved, zb_h1, zb_v}) all.push_back({devices, schedule, remat});
    all.push_back({.devices = 2, .schedule = one_f_one_b, .remat = remat, .weights_late = 0});
    all.push_back({.devices = 4, .schedule = one_f_one_b, .remat = remat, .weights_late = 2});
    all.push_back({.devices = 1, .schedule = gpipe, .remat = remat, .weights_late = 100});
  }
  all.push_back({3, one_f_one_b, Remat::none, PartitionRule::parameters});
  all.push_back({3, gpipe, Remat::full, kOpen});
  return all;
}

std::string describe_choice(const Choice& choice) {
  return join(choice.devices, " devices, ", name_of(choice.schedule), choice.weights_late ? " with split backwards" : "", ", remat ",
              text_of(choice.remat), ", ", choice.micro_batches, " micro-batches");
}

/// Each B as I, and its W after so many more backwards, or at the end.
Schedule with_late_weights(Schedule schedule, size_t late) {
  schedule.name += "-split";
  for (auto& order : schedule.devices) {
    std::vector<ComputeAction> split, waiting;
    const auto release = [&](size_t kept) {
      while (waiting.size() > kept) {
        split.push_back(waiting.front());
        waiting.erase(waiting.begin());
      }
    };
    for (ComputeAction action : order) {
      const bool splits = action.kind == Compute::backward;
      if (splits) action.kind = Compute::input_gradient;
      split.push_back(action);
      if (!splits) continue;
      waiting.push_back({Compute::weight_gradient, action.stage, action.micro_batch});
      release(late);
    }
    release(0);
    order = std::move(split);
  }
  return schedule;
}

struct Outcome {
  std::string hash;
  std::vector<double> losses;
  bool operator==(const Outcome&) const = default;
};

Plan make_plan(const layers::Graph& graph, const Choice& choice, int64_t batch) {
  std::string names;
  for (int i = 0; i < choice.devices; ++i) names += (i ? ",cpu:" : "cpu:") + std::to_string(i);
  PlanOptions options{.batch = batch,
                      .micro_batches = choice.micro_batches,
                      .schedule = {choice.schedule, choice.virtual_stages()},
                      .partition = choice.partition,
                      .remat = choice.remat,
                      .precision = choice.precision};
  Plan chosen = plan(graph, devices(names), options);
  if (choice.weights_late)
    chosen.schedule =
        with_late_weights(make_schedule(choice.schedule, choice.devices, choice.micro_batches), static_cast<size_t>(*choice.weights_late));
  return chosen;
}

template <class MakeBatch>
Outcome train(const layers::Graph& graph, const Choice& choice, int64_t samples, const MakeBatch& batch) {
  const AdamW optimizer({.lr = 1e-2});
  const Plan chosen = make_plan(graph, choice, samples);
  Trainer trainer(graph, chosen, optimizer, {.seed = 3, .clip = 0.5, .stochastic_rounding = choice.stochastic_rounding});
  const Prediction training = predict(graph, chosen, optimizer, samples, {});
  const Prediction evaluating = predict_evaluation(graph, chosen, optimizer, samples, false);
  Outcome outcome;
  for (uint64_t step = 0; step < 3; ++step) outcome.losses.push_back(trainer.step(batch(step)).loss);
  const auto evaluation = trainer.evaluate(batch(77));
  outcome.losses.push_back(evaluation.loss_sum / evaluation.weight);
  outcome.hash = trainer.weights_hash();
  for (size_t i = 0; i < chosen.devices.size(); ++i)
    EXPECT_EQ(chosen.devices[i]->peak_bytes(), std::max(training.devices[i].peak_bytes, evaluating.devices[i].peak_bytes))
        << describe_choice(choice) << ", device " << i;
  return outcome;
}

TEST(OneAnswer, OfATransformerWithTiedEmbeddingsAndDropout) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const RematNodes some{{"block0.attention", "block1.feed_forward_in", "logits"}};
  const Outcome first = train(graph, choices(some)[0], 8, batch);
  for (const Choice& choice : choices(some)) EXPECT_EQ(train(graph, choice, 8, batch), first) << describe_choice(choice);
}

TEST(OneAnswer, OfADagWithSkipsOverSeveralStages) {
  const layers::Graph graph = skip_graph();
  const auto batch = [&](uint64_t seed) { return skip_batch(10, seed); };
  const RematNodes some{{"a", "b", "f", "h"}};
  const Outcome first = train(graph, choices(some)[0], 10, batch);
  for (const Choice& choice : choices(some)) EXPECT_EQ(train(graph, choice, 10, batch), first) << describe_choice(choice);
}

TEST(OneAnswer, OfRunningStatisticsOfBatchNorm) {
  const layers::Graph graph = image_graph();
  const auto batch = [&](uint64_t seed) { return image_batch(10, seed); };
  const RematNodes some{{"norm", "pool", "block"}};
  const Outcome first = train(graph, choices(some)[0], 10, batch);
  for (const Choice& choice : choices(some)) EXPECT_EQ(train(graph, choice, 10, batch), first) << describe_choice(choice);
}

TEST(OneAnswer, WithFewerMicroBatchesThanStagesAndWithUnevenOnes) {
  const layers::Graph graph = skip_graph();
  const auto batch = [&](uint64_t seed) { return skip_batch(10, seed); };
  for (int micro_batches : {1, 2, 3, 7}) {
    Choice choice{1, gpipe};
    choice.micro_batches = micro_batches;
    const Outcome first = train(graph, choice, 10, batch);
    for (int devices : {1, 2, 4})
      for (const auto schedule : kNamedSchedules)
        for (const Remat remat : {Remat::none, Remat::full}) {
          Choice other{devices, schedule, remat};
          other.micro_batches = micro_batches;
          EXPECT_EQ(train(graph, other, 10, batch), first) << describe_choice(other);
        }
  }
}

/// Four micro-batches in bf16 over 1, 2 and 4 devices.
template <class MakeBatch>
Outcome expect_one_answer_in_bf16(const layers::Graph& graph, int64_t samples, bool stochastic_rounding, const MakeBatch& batch) {
  std::optional<Outcome> first;
  for (int devices : {1, 2, 4})
    for (const auto schedule : {gpipe, one_f_one_b, zb_v})
      for (const Remat remat : {Remat::none, Remat::full}) {
        const Choice choice{devices, schedule, remat, PartitionRule::uniform, 4, Precision::bf16, stochastic_rounding};
        const Outcome outcome = train(graph, choice, samples, batch);
        if (!first) first = outcome;
        EXPECT_EQ(outcome, *first) << describe_choice(choice) << (stochastic_rounding ? ", rounded stochastically" : "");
      }
  return *first;
}

TEST(OneAnswer, InBf16WithEitherRounding) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const Outcome nearest = expect_one_answer_in_bf16(graph, 8, false, batch);
  const Outcome stochastic = expect_one_answer_in_bf16(graph, 8, true, batch);
  const Outcome single = train(graph, {1, gpipe}, 8, batch);
  EXPECT_NE(nearest.hash, stochastic.hash);
  EXPECT_NE(nearest.hash, single.hash);
  for (size_t i = 0; i < single.losses.size(); ++i) {
    EXPECT_NEAR(nearest.losses[i], single.losses[i], 0.01 * single.losses[i]);
    EXPECT_NEAR(stochastic.losses[i], single.losses[i], 0.01 * single.losses[i]);
  }
}

TEST(OneAnswer, InBf16OfADagWithFloatingInputs) {
  expect_one_answer_in_bf16(skip_graph(), 10, true, [](uint64_t seed) { return skip_batch(10, seed); });
}

TEST(OneAnswer, InBf16OfBatchNorm) {
  expect_one_answer_in_bf16(image_graph(), 10, false, [](uint64_t seed) { return image_batch(10, seed); });
}

TEST(OneAnswer, InTf32OnACpuIsThatOfF32) {
  const auto batch = [&](uint64_t seed) { return skip_batch(10, seed); };
  EXPECT_EQ(train(skip_graph(), {2, one_f_one_b, Remat::none, PartitionRule::uniform, 4, Precision::tf32}, 10, batch),
            train(skip_graph(), {2, one_f_one_b}, 10, batch));
}

TEST(OneAnswer, AcrossMicroBatchesToRounding) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const Outcome whole = train(graph, {.devices = 1, .schedule = gpipe, .micro_batches = 1}, 8, batch);
  for (int micro_batches : {2, 3, 8}) {
    const Outcome cut = train(graph, {.devices = 2, .schedule = one_f_one_b, .micro_batches = micro_batches}, 8, batch);
    for (size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(cut.losses[i], whole.losses[i], 1e-5 * whole.losses[i]) << micro_batches << " micro-batches";
  }
}

TEST(OneAnswer, WithAnotherNumberOfMicroBatchesAtEveryStep) {
  const layers::Graph graph = skip_graph();
  const AdamW optimizer({.lr = 1e-2});
  std::vector<std::string> hashes;
  for (int devices : {1, 3}) {
    Trainer trainer(graph, make_plan(graph, {devices, one_f_one_b}, 10), optimizer);
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
  Trainer trainer(graph, make_plan(graph, {2, one_f_one_b}, 10), AdamW({.lr = 2e-2}));
  const double first = trainer.step(skip_batch(10, 1)).loss;
  double last = first;
  for (int step = 0; step < 60; ++step) last = trainer.step(skip_batch(10, 1)).loss;
  EXPECT_LT(last, 0.5 * first);
}

TEST(Trainer, NamesDeviceNodeAndBytesWhenTheBudgetIsTooSmall) {
  const layers::Graph graph = skip_graph();
  Plan chosen = make_plan(graph, {2, one_f_one_b}, 10);
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
    EXPECT_TRUE(message.ends_with(prediction.reason)) << message << "\nthe plan says what happens: " << prediction.reason;
  }
}

TEST(Trainer, KeepsItsWeightsWhenABatchIsBadAndGoesOn) {
  const layers::Graph graph = skip_graph();
  Trainer trainer(graph, make_plan(graph, {3, one_f_one_b}, 10), AdamW({.lr = 1e-2}));
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

TEST(Trainer, RefusesGradientsThatAreNotFiniteAndGoesOnAsIfTheStepHadNotBeen) {
  const layers::Graph graph = skip_graph();
  for (Precision precision : {Precision::f32, Precision::bf16}) {
    const Choice choice{.devices = 2, .schedule = gpipe, .precision = precision};
    Trainer trainer(graph, make_plan(graph, choice, 10), AdamW({.lr = 1e-2}), {.clip = 1});
    Trainer undisturbed(graph, make_plan(graph, choice, 10), AdamW({.lr = 1e-2}), {.clip = 1});
    Batch bad = skip_batch(10, 2);
    bad.load = [load = bad.load](const std::string& input, int64_t first, int64_t count) {
      return input == "image" ? full({count, 6}, NAN) : load(input, first, count);
    };
    for (uint64_t seed : {1, 3}) {
      EXPECT_EQ(trainer.step(skip_batch(10, seed)).loss, undisturbed.step(skip_batch(10, seed)).loss);
      const int64_t steps = trainer.steps_done();
      expect_error<Error>([&] { trainer.step(bad); },
                          {"gradient of step " + std::to_string(steps + 1), "not finite", "no weight was changed"});
      EXPECT_EQ(trainer.steps_done(), steps);
      EXPECT_EQ(trainer.weights_hash(), undisturbed.weights_hash());
      EXPECT_EQ(trainer.evaluate(skip_batch(10, 9)).loss_sum, undisturbed.evaluate(skip_batch(10, 9)).loss_sum);
    }
  }
}

TEST(Trainer, RefusesStochasticRoundingWhereNothingIsRounded) {
  const layers::Graph graph = skip_graph();
  expect_error<UsageError>(
      [&] {
        Trainer(graph, make_plan(graph, {1, gpipe}, 10), AdamW({.lr = 1e-2}), {.stochastic_rounding = true});
      },
      {"train.stochastic_rounding", "bf16", "got f32"});
}

}  // namespace
}  // namespace sluice::parallel
