// When one of several devices failed after another had stepped, the trainer went on with weights of two steps.
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

/// Fails on one device at one step, after the others have stepped.
class FailingOptimizer : public AdamW {
 public:
  FailingOptimizer(int device, int64_t step) : AdamW({.lr = 1e-2}), device_(device), step_(step) {}
  void apply(const std::vector<OptimizerSlot>& slots, const Update& update) const override {
    if (update.step == step_ && slots[0].parameter.device().index() == device_) throw DeviceError("the device is gone");
    AdamW::apply(slots, update);
  }
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<FailingOptimizer>(*this); }

 private:
  int device_;
  int64_t step_;
};

std::unique_ptr<Trainer> trainer_that_fails(int device, int64_t step) {
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  return std::make_unique<Trainer>(graph, chosen, FailingOptimizer(device, step), TrainerOptions{.seed = 7});
}

TEST(AStepThatFailsMidway, LeavesATrainerThatRefusesToGoOnAndToBeSavedUntilItIsRestored) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_that_fails(1, 2), undisturbed = trainer_that_fails(1, 99);
  for (auto* each : {trainer.get(), undisturbed.get()}) each->step(skip_batch(kSamples, 1));
  const auto saved = output.save(*trainer, "", {}, 3);
  expect_error<DeviceError>([&] { trainer->step(skip_batch(kSamples, 2)); }, {"the device is gone"});
  EXPECT_EQ(trainer->steps_done(), 1);

  const auto refuses = [&](const auto& work) {
    expect_error<Error>(work,
                        {"step 2 failed when a device had begun to change its weights", "restore a checkpoint", "the device is gone"});
  };
  refuses([&] { trainer->step(skip_batch(kSamples, 2)); });
  refuses([&] { trainer->evaluate(skip_batch(kSamples, 2)); });
  refuses([&] { output.save(*trainer, "", {}, 3); });

  const auto fresh = trainer_that_fails(1, 99);
  restore(open_checkpoint(saved), *fresh);
  restore(open_checkpoint(saved), *trainer);
  EXPECT_EQ(trainer->weights_hash(), fresh->weights_hash());
  EXPECT_EQ(trainer->evaluate(skip_batch(kSamples, 2)).loss_sum, undisturbed->evaluate(skip_batch(kSamples, 2)).loss_sum);
  fresh->step(skip_batch(kSamples, 2));
  undisturbed->step(skip_batch(kSamples, 2));
  EXPECT_EQ(fresh->weights_hash(), undisturbed->weights_hash());
}

TEST(AStepThatFailsBeforeAnyWeightChanges, LeavesAWholeTrainer) {
  const auto trainer = trainer_that_fails(1, 99);
  trainer->step(skip_batch(kSamples, 1));
  const std::string before = trainer->weights_hash();
  Batch misshapen = skip_batch(kSamples, 2);
  misshapen.load = [load = misshapen.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" ? zeros({count, 5}) : load(input, first, count);
  };
  expect_error<UsageError>([&] { trainer->step(misshapen); }, {"stem"});
  EXPECT_NO_THROW(trainer->require_whole());
  EXPECT_EQ(trainer->weights_hash(), before);
  trainer->step(skip_batch(kSamples, 2));
}

}  // namespace
}  // namespace sluice::parallel
