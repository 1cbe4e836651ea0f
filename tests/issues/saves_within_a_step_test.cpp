// A checkpoint that was saved by TrainerOptions::wish had the weights of the step that was about to end and the number of the one before.
#include <gtest/gtest.h>

#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

class ARun : public ::testing::Test {
 protected:
  ARun() : output_(folder_.path() / "run") {
    const auto graph = skip_graph();
    const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2});
    const auto wish = [this] {
      if (within_) within_(*trainer_);
      return Wish();
    };
    trainer_ = std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), TrainerOptions{.seed = 7, .wish = wish});
  }

  /// Steps and evaluates with that in its midst: both refuse it, and go on.
  void expect_refused(const std::function<void(Trainer&)>& what) {
    const int64_t before = trainer_->steps_done();
    within_ = what;
    expect_error<UsageError>([&] { trainer_->step(skip_batch(kSamples, 1)); }, {"got a call from within", "Wish::save"});
    expect_error<UsageError>([&] { trainer_->evaluate(skip_batch(kSamples, 1)); }, {"got a call from within"});
    within_ = {};
    EXPECT_EQ(trainer_->steps_done(), before + 1);
    const auto saved = open_checkpoint(save());
    EXPECT_EQ(saved.step, before + 1);
    EXPECT_EQ(saved.weights_hash, trainer_->weights_hash());
  }

  std::string save() { return output_.save(*trainer_, "", {}, 9); }

  TemporaryFolder folder_;
  OutputFolder output_;
  std::function<void(Trainer&)> within_;
  std::unique_ptr<Trainer> trainer_;
};

TEST_F(ARun, RefusesToBeSavedFromWithin) {
  expect_refused([&](Trainer&) { save(); });
  EXPECT_EQ(finished_checkpoints(output_.path()).size(), 1u);
}

TEST_F(ARun, RefusesToGiveOrTakeWeightsFromWithin) {
  expect_refused([](Trainer& trainer) { trainer.require_whole(); });
  expect_refused([](Trainer& trainer) { trainer.model(); });
  expect_refused([](Trainer& trainer) { trainer.parameters(); });
  expect_refused([](Trainer& trainer) { trainer.weights_hash(); });
  expect_refused([](Trainer& trainer) { trainer.publish_parameters(); });
  expect_refused([](Trainer& trainer) { trainer.set_steps_done(99); });
}

TEST_F(ARun, RefusesAnotherOneWithin) {
  expect_refused([](Trainer& trainer) { trainer.step(skip_batch(kSamples, 2)); });
  expect_refused([](Trainer& trainer) { trainer.evaluate(skip_batch(kSamples, 2)); });
}

TEST_F(ARun, RefusesToBeReadByALoader) {
  Batch batch = skip_batch(kSamples, 1);
  const auto load = batch.load;
  for (const int64_t samples : {int64_t{1}, int64_t{kSamples} / 2}) {  // when it shows its shape, and in a stage
    batch.load = [&](const std::string& input, int64_t first, int64_t count) {
      if (count == samples) trainer_->model();
      return load(input, first, count);
    };
    expect_error<UsageError>([&] { trainer_->step(batch); }, {"got a call from within"});
    EXPECT_EQ(trainer_->steps_done(), 0);
  }
  trainer_->step(skip_batch(kSamples, 1));
}

}  // namespace
}  // namespace sluice::parallel
