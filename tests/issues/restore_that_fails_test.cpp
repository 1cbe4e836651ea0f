// A checkpoint of another optimizer, or with a weight that is no number, was refused after weights had been overwritten with its own: a program
// that caught the error trained on, or evaluated, with them.
#include <gtest/gtest.h>

#include <cmath>

#include "core/file/file.h"
#include "parallel/checkpoint.h"
#include "parallel/checkpoint/layout.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

std::unique_ptr<Trainer> trainer_of(const Optimizer& optimizer, uint64_t seed) {
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  return std::make_unique<Trainer>(graph, chosen, optimizer, TrainerOptions{.seed = seed});
}

const AdamW kAdam({.lr = 1e-2});
const SGD kMomentum({.lr = 1e-2, .momentum = 0.5});

class ARestoreThatFails : public ::testing::Test {
 protected:
  ARestoreThatFails() : output_(folder_.path() / "run") {
    const auto other = trainer_of(kAdam, 1);
    other->step(skip_batch(kSamples, 1));
    saved_ = open_checkpoint(output_.save(*other, "", {}, 3));
  }

  /// Nothing of the checkpoint was taken.
  template <class Restore>
  void expect_untouched(Trainer& trainer, const Restore& restore_it, std::initializer_list<std::string> words) {
    trainer.step(skip_batch(kSamples, 2));
    const std::string before = trainer.weights_hash();
    expect_error<DataError>(restore_it, words);
    EXPECT_EQ(trainer.weights_hash(), before);
    EXPECT_EQ(trainer.steps_done(), 1);
    trainer.step(skip_batch(kSamples, 3));
  }

  /// What was taken is not used.
  void expect_refusal(Trainer& trainer, const Checkpoint& whole) {
    const auto refuses = [&](const auto& work) { expect_error<Error>(work, {"some of its weights are those of", "restore another"}); };
    refuses([&] { trainer.step(skip_batch(kSamples, 2)); });
    refuses([&] { trainer.evaluate(skip_batch(kSamples, 2)); });
    refuses([&] { output_.save(trainer, "", {}, 3); });
    restore(whole, trainer);
    EXPECT_EQ(trainer.weights_hash(), whole.weights_hash);
    trainer.step(skip_batch(kSamples, 2));
  }

  /// The last number of a file of the checkpoint, whose sums are not looked at again, becomes none.
  void spoil(const char* file) {
    const std::string path = saved_.path_of(file);
    std::string bytes = read_file(path);
    const float nan = NAN;
    bytes.replace(bytes.size() - sizeof nan, sizeof nan, reinterpret_cast<const char*>(&nan), sizeof nan);
    write_file(path, bytes);
  }

  TemporaryFolder folder_;
  OutputFolder output_;
  Checkpoint saved_;
};

TEST_F(ARestoreThatFails, ForAnotherOptimizerLeavesTheTrainerAsItWas) {
  const auto trainer = trainer_of(kMomentum, 2);
  expect_untouched(*trainer, [&] { restore(saved_, *trainer); }, {"/momentum", "the checkpoint has none"});
}

TEST_F(ARestoreThatFails, ForAveragesThatAreNotThereLeavesTheTrainerAsItWas) {
  AdamW averaged = kAdam;
  averaged.ema = 0.9;
  const auto trainer = trainer_of(averaged, 2), plain = trainer_of(kAdam, 2);
  expect_untouched(*trainer, [&] { restore(saved_, *trainer); }, {"the checkpoint has none", "optimizer.ema"});
  expect_untouched(*plain, [&] { restore_weights(saved_, true, *plain); }, {"the checkpoint has none"});
}

TEST_F(ARestoreThatFails, AtAWeightThatIsNoNumberLeavesATrainerThatRefusesToGoOn) {
  const auto whole = trainer_of(kAdam, 3);
  for (const uint64_t seed : {1, 2}) whole->step(skip_batch(kSamples, seed));
  const Checkpoint other = open_checkpoint(output_.save(*whole, "", {}, 3));
  spoil(checkpoint_layout::kModelFile);
  const auto trainer = trainer_of(kAdam, 2), evaluated = trainer_of(kAdam, 2);
  expect_error<DataError>([&] { restore(saved_, *trainer); }, {"needs finite weights"});
  expect_refusal(*trainer, other);
  expect_error<DataError>([&] { restore_weights(saved_, false, *evaluated); }, {"needs finite weights"});
  expect_refusal(*evaluated, other);
}

TEST_F(ARestoreThatFails, AtWeightsThatAreNotThoseThatWereSavedLeavesATrainerThatRefusesToGoOn) {
  Checkpoint other = saved_;
  other.weights_hash.back() = other.weights_hash.back() == '0' ? '1' : '0';
  const auto trainer = trainer_of(kAdam, 2);
  expect_error<DataError>([&] { restore(other, *trainer); }, {"needs weights with hash"});
  expect_refusal(*trainer, saved_);
}

}  // namespace
}  // namespace sluice::parallel
