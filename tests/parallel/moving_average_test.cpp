// Moving averages of weights and running statistics: one answer, bytes as predicted, and what evaluation reads.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "core/cuda/cuda.h"
#include "core/ops/copy.h"
#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::tiny_classifier;
using sluice::testing::tiny_language_model;
using sluice::testing::TinyModel;

constexpr int64_t kSamples = 8;
constexpr double kEma = 0.9;

struct Choice {
  std::string devices = "cpu:0";
  NamedSchedule schedule = NamedSchedule::one_f_one_b;
  Remat remat = Remat::none;
  Precision precision = Precision::f32;
  bool stochastic_rounding = false;
  double ema = kEma;
};

Plan plan_of(const TinyModel& model, const Choice& choice) {
  return plan(model.graph, devices(choice.devices),
              {.batch = kSamples,
               .micro_batches = 4,
               .schedule = choice.schedule,
               .partition = PartitionRule::uniform,
               .remat = choice.remat,
               .precision = choice.precision});
}

AdamW optimizer_with(double ema) {
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = ema;
  return optimizer;
}

std::unique_ptr<Trainer> trainer_of(const TinyModel& model, const Choice& choice) {
  return std::make_unique<Trainer>(model.graph, plan_of(model, choice), optimizer_with(choice.ema),
                                   TrainerOptions{.seed = 3, .clip = 0.5, .stochastic_rounding = choice.stochastic_rounding});
}

using Numbers = std::map<std::string, std::vector<double>>;
Numbers numbers_of(const std::map<std::string, Tensor>& tensors) {
  Numbers all;
  for (const auto& [name, tensor] : tensors) all[name] = tensor.to_vector();
  return all;
}

struct Outcome {
  std::vector<double> losses;  ///< of steps, each followed by an evaluation
  std::string hash;
  Numbers averages;
  bool operator==(const Outcome&) const = default;
};

/// Three steps, each followed by an evaluation when it is wanted.
Outcome train(const TinyModel& model, const Choice& choice, bool evaluates = true) {
  const auto trainer = trainer_of(model, choice);
  const Prediction prediction = predict(model.graph, trainer->plan(), trainer->optimizer(), kSamples, {});
  Outcome outcome;
  for (uint64_t step = 1; step <= 3; ++step) {
    outcome.losses.push_back(trainer->step(model.batch(step)).loss);
    if (evaluates) outcome.losses.push_back(trainer->evaluate(model.batch(77)).loss_sum);
  }
  for (size_t i = 0; i < prediction.devices.size(); ++i)
    EXPECT_EQ(trainer->plan().devices[i]->peak_bytes(), prediction.devices[i].peak_bytes) << choice.devices << ", device " << i;
  outcome.hash = trainer->weights_hash();
  outcome.averages = numbers_of(trainer->averages());
  return outcome;
}

void expect_one_answer(const TinyModel& model, Precision precision, bool stochastic_rounding) {
  std::optional<Outcome> first;
  for (const char* names : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2", "cpu:0,cpu:1,cpu:2,cpu:3"})
    for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b})
      for (const Remat remat : {Remat::none, Remat::full}) {
        const Outcome outcome = train(model, {names, schedule, remat, precision, stochastic_rounding});
        if (!first) first = outcome;
        EXPECT_EQ(outcome, *first) << names << ", " << name_of(schedule) << ", " << name_of(remat) << ", " << name_of(precision);
      }
}

TEST(MovingAverages, HaveOneAnswerAndThePredictedBytesForEveryPipeline) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)}) {
    expect_one_answer(model, Precision::f32, false);
    expect_one_answer(model, Precision::bf16, true);
  }
}

TEST(MovingAverages, LeaveTrainingAsItIsWithoutThemWhetherOrNotItIsEvaluated) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)})
    for (const Precision precision : {Precision::f32, Precision::bf16}) {
      Choice choice{.devices = "cpu:0,cpu:1", .precision = precision, .stochastic_rounding = precision == Precision::bf16};
      const Outcome evaluated = train(model, choice), not_evaluated = train(model, choice, false);
      EXPECT_EQ(evaluated.hash, not_evaluated.hash) << name_of(precision);
      EXPECT_EQ(evaluated.averages, not_evaluated.averages) << name_of(precision);
      choice.ema = 0;
      EXPECT_EQ(train(model, choice, false).hash, not_evaluated.hash) << name_of(precision);
    }
}

/// average = d average + (1 - d) value with d = min(ema, (1 + step) / (10 + step)), from what the model was at the start.
TEST(MovingAverages, FollowEverythingThatTheModelIsWithADecayThatWarmsUp) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)}) {
    const auto trainer = trainer_of(model, {.devices = "cpu:0,cpu:1", .ema = 0.2});
    Numbers expected = numbers_of(trainer->model());
    EXPECT_EQ(numbers_of(trainer->averages()), expected);
    for (const auto& [step, decay] : std::map<uint64_t, double>{{1, 2.0 / 11}, {2, 0.2}, {3, 0.2}}) {
      trainer->step(model.batch(step));
      for (const auto& [name, values] : numbers_of(trainer->model()))
        for (size_t i = 0; i < values.size(); ++i) expected[name][i] = decay * expected[name][i] + (1 - decay) * values[i];
    }
    const Numbers averages = numbers_of(trainer->averages());
    ASSERT_EQ(averages.size(), expected.size());
    for (const auto& [name, values] : expected)
      for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(averages.at(name)[i], values[i], 1e-5) << name << ", element " << i;
  }
}

/// The loss of a model whose weights are the averages of `trained`.
double loss_of_averages(const TinyModel& model, Choice choice, const Trainer& trained) {
  choice.ema = 0;
  choice.stochastic_rounding = false;
  const auto plain = trainer_of(model, choice);
  for (const auto& [name, tensor] : plain->model()) copy(trained.averages().at(name), tensor);
  plain->publish_parameters();
  return plain->evaluate(model.batch(77)).loss_sum;
}

TEST(MovingAverages, AreWhatEvaluationReadsAlsoOfTiedWeightsAndRunningStatistics) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)})
    for (const char* names : {"cpu:0", "cpu:0,cpu:1,cpu:2"})
      for (const Precision precision : {Precision::f32, Precision::bf16}) {
        const Choice choice{.devices = names, .precision = precision, .stochastic_rounding = precision == Precision::bf16};
        const auto trainer = trainer_of(model, choice);
        for (uint64_t step : {1, 2, 3}) {
          trainer->step(model.batch(step));
          EXPECT_EQ(trainer->evaluate(model.batch(77)).loss_sum, loss_of_averages(model, choice, *trainer)) << names;
        }
        Choice without = choice;
        without.ema = 0;
        const auto plain = trainer_of(model, without);
        for (uint64_t step : {1, 2, 3}) plain->step(model.batch(step));
        EXPECT_NE(trainer->evaluate(model.batch(77)).loss_sum, plain->evaluate(model.batch(77)).loss_sum) << names;
      }
}

TEST(MovingAverages, StayWhenAStepFails) {
  const TinyModel model = tiny_classifier(kSamples);
  const auto trainer = trainer_of(model, {.devices = "cpu:0,cpu:1"});
  trainer->step(model.batch(1));
  const Numbers before = numbers_of(trainer->averages());
  Batch without_number = model.batch(2);
  without_number.load = [load = without_number.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" ? full({count, 5, 6, 3}, NAN) : load(input, first, count);
  };
  expect_error<Error>([&] { trainer->step(without_number); }, {"not finite"});
  EXPECT_EQ(numbers_of(trainer->averages()), before);
}

TEST(MovingAverages, GoOnBitForBitFromACheckpointOnAnyNumberOfDevices) {
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)}) {
    const TemporaryFolder folder;
    OutputFolder output(folder.path() / "run");
    const Choice choice{.devices = "cpu:0,cpu:1", .precision = Precision::bf16, .stochastic_rounding = true};
    const auto trainer = trainer_of(model, choice);
    for (uint64_t step : {1, 2}) trainer->step(model.batch(step));
    const double evaluation = trainer->evaluate(model.batch(77)).loss_sum;
    const Checkpoint checkpoint = open_checkpoint(output.save(*trainer, "", {}, 1));
    EXPECT_TRUE(checkpoint.has_averages);
    EXPECT_EQ(numbers_of(load_parameters(checkpoint, model.graph, Precision::f32)), numbers_of(trainer->averages()));
    trainer->step(model.batch(3));
    for (const char* names : {"cpu:0", "cpu:0,cpu:1,cpu:2"}) {
      Choice other = choice;
      other.devices = names;
      const auto resumed = trainer_of(model, other);
      restore(checkpoint, *resumed);
      EXPECT_EQ(resumed->evaluate(model.batch(77)).loss_sum, evaluation) << names;
      resumed->step(model.batch(3));
      EXPECT_EQ(resumed->weights_hash(), trainer->weights_hash()) << names;
      EXPECT_EQ(numbers_of(resumed->averages()), numbers_of(trainer->averages())) << names;
    }
  }
}

TEST(MovingAverages, OfACheckpointAreNeededByATrainingThatKeepsThemAndLeftAsideByOthers) {
  const TinyModel model = tiny_classifier(kSamples);
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto with = trainer_of(model, {}), without = trainer_of(model, {.ema = 0});
  const Checkpoint no_averages = open_checkpoint(output.save(*without, "", {}, 2));
  EXPECT_FALSE(no_averages.has_averages);
  expect_error<DataError>([&] { restore(no_averages, *with); }, {"needs ema.safetensors", "optimizer.ema = 0"});
  with->step(model.batch(1));
  restore(open_checkpoint(output.save(*with, "", {}, 2)), *without);
  EXPECT_EQ(without->weights_hash(), with->weights_hash());
}

TEST(MovingAverages, CountAsOptimizerStatesOfThePlan) {
  const TinyModel model = tiny_classifier(kSamples);
  const auto bytes = [&](double ema) { return predict(model.graph, plan_of(model, {}), optimizer_with(ema), kSamples, {}).devices[0]; };
  const auto with = bytes(kEma), without = bytes(0);
  EXPECT_EQ(with.optimizer_bytes - without.optimizer_bytes, with.parameter_bytes) << "a copy of the weights and the running statistics";
  EXPECT_EQ(with.peak_bytes - without.peak_bytes, with.parameter_bytes);
}

TEST(MovingAverages, RefuseADecayOfOne) {
  expect_error<UsageError>([] { trainer_of(tiny_classifier(kSamples), {.ema = 1}); }, {"optimizer.ema", "[0, 1)"});
}

TEST(CudaTrainingWithMovingAverages, HasOneAnswerThatIsNearTheCpus) {
  if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  for (const TinyModel& model : {tiny_classifier(kSamples), tiny_language_model(kSamples)}) {
    const Outcome cpu = train(model, {}), whole = train(model, {.devices = "cuda:0"});
    const Outcome cut = train(model, {.devices = "cuda:0,cuda:0", .remat = Remat::full});
    EXPECT_EQ(whole, cut);
    for (size_t i = 0; i < cpu.losses.size(); ++i) EXPECT_NEAR(whole.losses[i], cpu.losses[i], 0.02 * std::abs(cpu.losses[i]));
    const auto trainer = trainer_of(model, {.devices = "cuda:0,cuda:0", .precision = Precision::bf16});
    trainer->step(model.batch(1));
    EXPECT_EQ(trainer->evaluate(model.batch(77)).loss_sum,
              loss_of_averages(model, {.devices = "cuda:0", .precision = Precision::bf16}, *trainer));
  }
}

}  // namespace
}  // namespace sluice::parallel
