// A second training that saved into the folder of the first kept the first one's weights, and pruning deleted a user's own file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "core/file/file.h"
#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

namespace fs = std::filesystem;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

std::unique_ptr<Trainer> trainer_with_seed(uint64_t seed) {
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = kSamples});
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), TrainerOptions{.seed = seed});
}

fs::path step_and_save(Trainer& trainer, OutputFolder& output, int keep = 3) {
  trainer.step(skip_batch(kSamples, 1));
  return output.save(trainer, "", {}, keep);
}

TEST(CheckpointsInTheWay, OfAnotherTrainingGiveWayToThisOne) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto first = trainer_with_seed(1), second = trainer_with_seed(2);
  const std::string of_first = [&] {
    step_and_save(*first, output);
    const std::string hash = first->weights_hash();
    step_and_save(*first, output);
    return hash;
  }();
  const fs::path saved = step_and_save(*second, output, 1);
  EXPECT_EQ(open_checkpoint(saved).weights_hash, second->weights_hash());
  const auto newest = find_latest(output.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->weights_hash, second->weights_hash()) << "the later step of the first training is no newest one";
  EXPECT_EQ(open_checkpoint(output.path_of("previous-1/step-00000001")).weights_hash, of_first);
  EXPECT_EQ(open_checkpoint(output.path_of("previous-1/step-00000002")).weights_hash, first->weights_hash());
}

TEST(CheckpointsInTheWay, OfTheSameStateAreLeftWhereTheyAre) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_with_seed(1);
  const fs::path saved = step_and_save(*trainer, output);
  const auto written = fs::last_write_time(saved / "state.json");
  EXPECT_EQ(output.save(*trainer, "", {}, 3), saved);
  EXPECT_EQ(fs::last_write_time(saved / "state.json"), written);
  EXPECT_FALSE(fs::exists(output.path_of("previous-1")));
}

/// Two trainings that took the same steps to the same weights, and kept other averages of them.
TEST(CheckpointsInTheWay, OfTheSameWeightsGiveWayToOtherAveragesConfigsAndFiles) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto graph = skip_graph();
  const Plan chosen = plan(graph, devices("cpu:0"), {.batch = kSamples});
  const auto save = [&](double ema, const std::string& config, const std::string& note) {
    AdamW optimizer({.lr = 1e-2});
    optimizer.ema = ema;
    Trainer trainer(graph, chosen, optimizer, TrainerOptions{.seed = 1});
    for (const uint64_t seed : {1, 2}) trainer.step(skip_batch(kSamples, seed));
    const auto saved = open_checkpoint(output.save(trainer, config, {{"note", note}}, 3));
    EXPECT_EQ(saved.config, config);
    EXPECT_EQ(read_file(saved.path_of("note")), note);
    Trainer restored(graph, chosen, optimizer, TrainerOptions{.seed = 9});
    restore(saved, restored);
    EXPECT_EQ(restored.evaluate(skip_batch(kSamples, 3)).loss_sum, trainer.evaluate(skip_batch(kSamples, 3)).loss_sum);
  };
  save(0.05, "one", "one");
  save(0.9, "one", "one");
  save(0.9, "two", "one");
  save(0.9, "two", "two");
  EXPECT_EQ(open_checkpoint(output.path_of("previous-2/step-00000002")).config, "one");
  EXPECT_TRUE(fs::exists(output.path_of("previous-3")));
  save(0.9, "two", "two");
  EXPECT_FALSE(fs::exists(output.path_of("previous-4")));
}

TEST(CheckpointsInTheWay, ThatAreDamagedAreReplacedAndNotTakenForWhole) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_with_seed(1);
  const fs::path saved = step_and_save(*trainer, output);
  fs::resize_file(saved / "model.safetensors", 100);
  output.save(*trainer, "", {}, 3);
  EXPECT_EQ(open_checkpoint(saved).weights_hash, trainer->weights_hash());
}

TEST(CheckpointsInTheWay, AreNeverTheUsersOwnFilesAndFolders) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  folder.write("run/step-00000001", "a file of mine");
  folder.write("run/step-00000002/notes.txt", "a folder of mine");
  folder.write("run/step-000000003/notes.txt", "nine digits");
  folder.write("run/step-00000009", "a file that is in nobody's way");
  const auto trainer = trainer_with_seed(1);
  for (int step = 1; step <= 4; ++step) step_and_save(*trainer, output, 1);
  EXPECT_EQ(read_file(output.path_of("previous-1/step-00000001")), "a file of mine");
  EXPECT_EQ(read_file(output.path_of("previous-2/step-00000002/notes.txt")), "a folder of mine");
  EXPECT_EQ(read_file(output.path_of("step-000000003/notes.txt")), "nine digits");
  EXPECT_EQ(read_file(output.path_of("step-00000009")), "a file that is in nobody's way");
  EXPECT_EQ(open_checkpoint(output.path_of("step-00000004")).step, 4);
  EXPECT_FALSE(fs::exists(output.path_of("step-00000003")));
}

TEST(CheckpointsInTheWay, WithNamesOfOtherFormsDoNotStopResuming) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_with_seed(1);
  step_and_save(*trainer, output);
  fs::create_directory(output.path_of("step-000000007"));
  EXPECT_EQ(output.set_aside_after(1), fs::path()) << "which would have renamed a folder that is not there";
  const auto newest = find_latest(output.path(), [](const std::string& warning) { ADD_FAILURE() << warning; });
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step, 1);
}

TEST(CheckpointsInTheWay, AtStepsOfNineDigitsAreFoundAgain) {
  const TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_with_seed(1);
  for (const int64_t step : {99'999'999, 123'456'789}) {
    trainer->set_steps_done(step - 1);
    step_and_save(*trainer, output);
    EXPECT_EQ(find_latest(output.path(), [](const std::string&) {})->step, step);
  }
}

/// The lock of a process that was killed was refused to one that took its place at once.
TEST(CheckpointsInTheWay, OfAProcessThatIsEndingAreWaitedFor) {
  const TemporaryFolder folder;
  auto ending = std::make_unique<OutputFolder>(folder.path() / "run");
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ending.reset();
  });
  EXPECT_NO_THROW(OutputFolder(folder.path() / "run"));
  end.join();
}

/// Permissions mean nothing to root.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    if (::geteuid() == 0) was_root_ = ::seteuid(54321) == 0;
  }
  ~OrdinaryUser() {
    if (was_root_ && ::seteuid(0) != 0) std::terminate();
  }

 private:
  bool was_root_ = false;
};

class FolderOfOthers : public ::testing::Test {
 protected:
  FolderOfOthers() {
    fs::permissions(folder_.path(), fs::perms::all);
    fs::create_directories(left_);
    fs::permissions(output_, fs::perms::all);
    write_file(left_ / "model.safetensors", "of another user");
  }
  ~FolderOfOthers() override {
    for (const fs::path& folder : {output_, left_}) fs::permissions(folder, fs::perms::all);
  }
  TemporaryFolder folder_;
  const fs::path output_ = folder_.path() / "run", left_ = output_ / "step-00000001.tmp-1";
};

/// It was an error of the library of files, without a cure, and the folder stayed locked until the process ended.
TEST_F(FolderOfOthers, WhatCannotBeRemovedIsNamedAndTheLockFree) {
  fs::permissions(left_, fs::perms::owner_read | fs::perms::owner_exec);
  {
    const OrdinaryUser user;
    expect_error<ResourceError>([&] { OutputFolder output(output_); },
                                {left_.string(), "cannot be removed: Permission denied", "remove it"});
  }
  fs::remove_all(left_);
  const OrdinaryUser user;
  EXPECT_NO_THROW(OutputFolder output(output_));
  fs::create_directories(left_);
}

TEST_F(FolderOfOthers, ThatCannotBeReadIsNotTakenForAnEmptyOne) {
  fs::permissions(output_, fs::perms(0333));
  const OrdinaryUser user;
  expect_error<DataError>([&] { find_checkpoint(output_); }, {output_.string(), "cannot be read: Permission denied", "allow reading"});
  expect_error<ResourceError>([&] { OutputFolder output(output_); }, {output_.string(), "Permission denied", "choose one that can"});
}

}  // namespace
}  // namespace sluice::parallel
