// Infinite weights were saved and the last finite checkpoint pruned; a gradient that is not finite named neither node nor device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

std::unique_ptr<Trainer> trainer_over(const std::string& names, const TrainerOptions& options = {}, double ema = 0) {
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices(names), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  AdamW optimizer({.lr = 1e-2});
  optimizer.ema = ema;
  return std::make_unique<Trainer>(graph, chosen, optimizer, options);
}

/// Whose second micro-batch has a number that is none.
Batch bad_batch() {
  Batch bad = skip_batch(kSamples, 2);
  bad.load = [load = bad.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" && first > 0 ? full({count, 6}, NAN) : load(input, first, count);
  };
  return bad;
}

void make_infinite(Trainer& trainer, size_t parameter) {
  const Tensor value = trainer.parameters().at(parameter).value;
  std::vector<double> numbers = value.to_vector();
  numbers.back() = std::numeric_limits<double>::infinity();
  std::memcpy(value.data(), tensor_of(numbers, value.shape()).data(), static_cast<size_t>(value.bytes()));
  trainer.publish_parameters();
}

TEST(WeightsThatAreNotFinite, AreNeverSavedAndPruneNothing) {
  for (const double ema : {0.0, 0.9}) {
    const TemporaryFolder folder;
    OutputFolder output(folder.path() / "run");
    const auto trainer = trainer_over("cpu:0,cpu:1", {}, ema);
    trainer->step(skip_batch(kSamples, 1));
    const auto finite = output.save(*trainer, "", {}, 1);
    trainer->step(skip_batch(kSamples, 2));
    make_infinite(*trainer, 3);
    expect_error<DivergenceError>([&] { output.save(*trainer, "", {}, 1); },
                                  {trainer->parameters()[3].name, "of step 2 is not finite", "cpu:", "older checkpoints are kept"});
    EXPECT_EQ(find_latest(output.path(), [](const std::string& warning) { ADD_FAILURE() << warning; })->folder, finite);
  }
}

TEST(GradientsThatAreNotFinite, NameStepNodeMicroBatchAndDevice) {
  for (const char* names : {"cpu:0", "cpu:0,cpu:1"}) {
    const auto trainer = trainer_over(names);
    trainer->step(skip_batch(kSamples, 1));
    const std::string before = trainer->weights_hash();
    expect_error<DivergenceError>(
        [&] { trainer->step(bad_batch()); },
        {"gradient of step 2 is not finite", "node 'stem', stage 0, micro-batch 1) on cpu:0", "no weight was changed"});
    EXPECT_EQ(trainer->weights_hash(), before);
    EXPECT_EQ(trainer->steps_done(), 1);
    trainer->step(skip_batch(kSamples, 3));
  }
}

TEST(GradientsThatAreNotFinite, NameTheNodeWhoseWeightsWentWrongAndItsDevice) {
  const auto trainer = trainer_over("cpu:0,cpu:1");
  const auto parameters = trainer->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto other = trainer_over("cpu:0,cpu:1");
    make_infinite(*other, i);
    const std::string node = parameters[i].name.substr(0, parameters[i].name.rfind('.'));
    expect_error<DivergenceError>([&] { other->step(skip_batch(kSamples, 1)); }, {"the output (node '" + node + "'", ") on cpu:"});
  }
}

TEST(GradientsThatAreNotFinite, AreSkippedWhenAskedFor) {
  const auto trainer = trainer_over("cpu:0,cpu:1", {.on_nonfinite = OnNonfinite::skip});
  const auto undisturbed = trainer_over("cpu:0");
  EXPECT_FALSE(trainer->step(skip_batch(kSamples, 1)).was_skipped);
  undisturbed->step(skip_batch(kSamples, 1));
  EXPECT_TRUE(trainer->step(bad_batch()).was_skipped);
  EXPECT_EQ(trainer->steps_done(), 2) << "the data go on";
  EXPECT_EQ(trainer->weights_hash(), undisturbed->weights_hash());
  undisturbed->set_steps_done(2, 1);
  EXPECT_FALSE(trainer->step(skip_batch(kSamples, 3)).was_skipped);
  undisturbed->step(skip_batch(kSamples, 3));
  EXPECT_EQ(trainer->weights_hash(), undisturbed->weights_hash());
}

}  // namespace
}  // namespace sluice::parallel
