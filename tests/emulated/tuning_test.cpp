// Trainings on emulated GPUs whose libraries have several algorithms: when these are tried, and which choices a training keeps.
#include <gtest/gtest.h>

#include <filesystem>
#include <list>

#include "core/cuda/choices.h"
#include "core/cuda/cuda.h"
#include "core/file/file.h"
#include "parallel/checkpoint.h"
#include "parallel/run/executor.h"
#include "parallel/trainer.h"
#include "tests/emulation/cublas.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using emulation::emulated_cublas;
using sluice::testing::TinyModel;

constexpr int64_t kSamples = 8;

/// The library's second algorithm is the faster one, unless a test says otherwise.
class CudaTrainingTuning : public ::testing::Test {
 protected:
  void SetUp() override { begin_process({2, 1}); }
  void TearDown() override { begin_process({2, 1}); }

  static void begin_process(std::vector<double> seconds) {
    Choices::of_process().forget();
    emulated_cublas().seconds = std::move(seconds);
    emulated_cublas().trials = 0;
    emulated_cublas().ran.clear();
  }

  struct How {
    const char* devices = "cuda:0";
    Tuning tuning = Tuning::quick;
    Precision precision = Precision::f32;
    int replicas = 1;
  };
  std::unique_ptr<Trainer> trainer_of(const TinyModel& model, const How& how) const {
    Plan chosen = plan(model.graph, devices(how.devices),
                       {.batch = kSamples,
                        .micro_batches = 4,
                        .partition = PartitionRule::uniform,
                        .precision = how.precision,
                        .replicas = how.replicas,
                        .fold_blocks = 2});
    AdamW optimizer({.lr = 1e-2});
    optimizer.ema = 0.9;
    return std::make_unique<Trainer>(
        model.graph, std::move(chosen), optimizer,
        TrainerOptions{
            .seed = 3, .clip = 0.5, .stochastic_rounding = how.precision == Precision::bf16, .tuning = how.tuning, .wish = [this] {
              return ++wishes_, Wish();
            }});
  }

  /// All that a training may change, as numbers.
  static std::map<std::string, std::vector<double>> numbers(const Trainer& trainer) {
    std::map<std::string, std::vector<double>> all;
    for (const auto& [kind, tensors] :
         {std::pair("model ", trainer.model()), std::pair("state ", trainer.optimizer_states()), std::pair("average ", trainer.averages())})
      for (const auto& [name, tensor] : tensors) all[kind + name] = tensor.to_vector();
    return all;
  }

  struct Steps {
    std::vector<double> losses, norms;
    std::vector<int64_t> peak_bytes;
    std::vector<std::map<std::string, std::vector<double>>> numbers;
    bool operator==(const Steps&) const = default;
  };
  Steps steps_in_new_process(const TinyModel& model, const How& how) const {
    begin_process({2, 1});
    const auto trainer = trainer_of(model, how);
    Steps steps;
    for (int step = 0; step < 2; ++step) {
      const StepResult result = trainer->step(model.batch(step));
      steps.losses.push_back(result.loss);
      steps.norms.push_back(result.gradient_norm);
      steps.peak_bytes.insert(steps.peak_bytes.end(), result.peak_bytes.begin(), result.peak_bytes.end());
      steps.numbers.push_back(numbers(*trainer));
    }
    return steps;
  }

  /// That every kind of product that ran did so by this algorithm.
  static void expect_ran(const std::string& algorithm) {
    EXPECT_FALSE(emulated_cublas().ran.empty());
    for (const auto& [kind, ran] : emulated_cublas().ran) EXPECT_EQ(ran, algorithm) << kind;
  }

  mutable int wishes_ = 0;
  const TinyModel language_ = sluice::testing::tiny_language_model(kSamples), classifier_ = sluice::testing::tiny_classifier(kSamples);
};

TEST_F(CudaTrainingTuning, TriesBeforeTheFirstStepAlone) {
  const auto trainer = trainer_of(language_, {});
  trainer->step(language_.batch(0));
  expect_ran("algorithm 1");
  const int trials = emulated_cublas().trials;
  EXPECT_EQ(trials, 2 * static_cast<int>(emulated_cublas().ran.size())) << "each kind of product once";
  trainer->step(language_.batch(1));
  trainer->step(language_.batch(2), 3);
  trainer->evaluate(language_.batch(3));
  EXPECT_EQ(emulated_cublas().trials, trials);
  EXPECT_EQ(wishes_, 4) << "the run that tries asks nobody";
}

TEST_F(CudaTrainingTuning, TriesNothingWhereItIsOff) {
  trainer_of(language_, {.tuning = Tuning::off})->step(language_.batch(0));
  expect_ran("algorithm 0");
  EXPECT_EQ(emulated_cublas().trials, 0);
}

TEST_F(CudaTrainingTuning, ChangesNothingButTheChoices) {
  for (const TinyModel& model : {language_, classifier_})
    for (How how : {How{}, How{"cuda:0,cuda:1"}, How{"cuda:0,cuda:0,cuda:1,cuda:1", Tuning::quick, Precision::f32, 2},
                    How{"cuda:0,cuda:1", Tuning::quick, Precision::bf16}}) {
      const Steps tuned = steps_in_new_process(model, how);
      expect_ran("algorithm 1");
      how.tuning = Tuning::off;
      const Steps untuned = steps_in_new_process(model, how);
      expect_ran("algorithm 0");
      EXPECT_EQ(tuned, untuned) << how.devices << ", " << name_of(how.precision);
    }
}

TEST_F(CudaTrainingTuning, HasOneChoiceOnAllDevices) {
  trainer_of(language_, {"cuda:0,cuda:1,cuda:0"})->step(language_.batch(0));
  expect_ran("algorithm 1");
  EXPECT_EQ(emulated_cublas().trials, 2 * static_cast<int>(emulated_cublas().ran.size()));
}

TEST_F(CudaTrainingTuning, ChoosesForAnotherTrainerOnlyWhatIsNew) {
  const auto first = trainer_of(language_, {});
  first->step(language_.batch(0));
  const GpuChoices chosen = gpu_choices();
  emulated_cublas().seconds = {1, 2};
  trainer_of(classifier_, {})->step(classifier_.batch(0));
  for (const auto& [kind, choice] : chosen) EXPECT_EQ(gpu_choices().at(kind), choice);
  EXPECT_GT(gpu_choices().size(), chosen.size());
}

class CudaTrainingTuningAndCheckpoints : public CudaTrainingTuning {
 protected:
  /// Of a training of one step.
  Checkpoint saved(Tuning tuning = Tuning::quick) {
    const TemporaryFolder& folder = folders_.emplace_back();
    const auto trainer = trainer_of(language_, {.tuning = tuning});
    trainer->step(language_.batch(0));
    return open_checkpoint(OutputFolder(folder.path() / "run").save(*trainer, "", {}, 1));
  }
  std::list<TemporaryFolder> folders_;
};

TEST_F(CudaTrainingTuningAndCheckpoints, GoesOnWithTheChoicesOfTheCheckpointWithoutTrials) {
  for (const Tuning tuning : {Tuning::quick, Tuning::off}) {
    begin_process({2, 1});
    const Checkpoint checkpoint = saved(tuning);
    EXPECT_FALSE(checkpoint.gpu_choices.empty());
    begin_process({1, 2});
    const auto resumed = trainer_of(language_, {.devices = "cuda:0,cuda:1"});
    restore(checkpoint, *resumed);
    resumed->step(language_.batch(1));
    expect_ran(tuning == Tuning::quick ? "algorithm 1" : "algorithm 0");
    EXPECT_EQ(emulated_cublas().trials, 0);
    EXPECT_EQ(resumed->gpu_choices(), checkpoint.gpu_choices);
  }
}

TEST_F(CudaTrainingTuningAndCheckpoints, EvaluatesWithTheChoicesOfTheTraining) {
  const Checkpoint checkpoint = saved();
  begin_process({1, 2});
  const SGD no_states({.momentum = 0});
  Trainer trainer(language_.graph, plan(language_.graph, devices("cuda:0"), {.batch = kSamples, .micro_batches = 4}), no_states);
  restore_weights(checkpoint, false, trainer);
  trainer.evaluate(language_.batch(1));
  expect_ran("algorithm 1");
}

TEST_F(CudaTrainingTuningAndCheckpoints, TriesWhereTheChoicesAreOfOtherGpusOrMissing) {
  Checkpoint checkpoint = saved();
  for (const GpuChoices& choices : {GpuChoices(), GpuChoices{{"another GPU, driver 13000, cuBLAS 0: a product", "algorithm 0"}}}) {
    checkpoint.gpu_choices = choices;
    begin_process({2, 1});
    const auto resumed = trainer_of(language_, {});
    restore(checkpoint, *resumed);
    resumed->step(language_.batch(1));
    expect_ran("algorithm 1");
    EXPECT_GT(emulated_cublas().trials, 0);
    for (const auto& [kind, choice] : choices) EXPECT_EQ(resumed->gpu_choices().at(kind), choice) << "for the way back";
  }
}

TEST_F(CudaTrainingTuningAndCheckpoints, AreOfGpusAlone) {
  trainer_of(language_, {})->step(language_.batch(0));
  const auto on_cpu = trainer_of(language_, {.devices = "cpu:0"});
  on_cpu->step(language_.batch(0));
  const std::filesystem::path folder = OutputFolder(folders_.emplace_back().path() / "cpu").save(*on_cpu, "", {}, 1);
  EXPECT_EQ(read_file(folder / "state.json").find("gpu_algorithms"), std::string::npos);
  EXPECT_TRUE(open_checkpoint(folder).gpu_choices.empty());
}

}  // namespace
}  // namespace sluice::parallel
