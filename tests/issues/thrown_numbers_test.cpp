// What is thrown need be no std::exception. A training that such a thing ended was not saved, against what the loop promises.
#include <gtest/gtest.h>

#include "parallel/plan.h"
#include "tests/temporary_folder.h"
#include "tests/training/point_classifier.h"
#include "training/loop.h"

namespace sluice::training {
namespace {

TEST(ThrownNumbers, EndATrainingThatIsSaved) {
  const TemporaryFolder folder;
  const layers::Graph graph = point_classifier();
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 8}), SGD({}));
  Loop loop(trainer, point_dataset(), {.steps = 5, .batch = 8, .output = folder.path() / "run"});
  loop.on_step = [](const Loop::Step& step) {
    if (step.number == 3) throw 42;
  };
  EXPECT_THROW(loop.run(), int);
  EXPECT_EQ(parallel::find_checkpoint(folder.path() / "run").step, 3);
}

TEST(ThrownNumbers, OfASaveDoNotTakeThePlaceOfTheFirstOne) {
  const TemporaryFolder folder;
  const layers::Graph graph = point_classifier();
  parallel::Trainer trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 8}), SGD({}));
  Loop loop(trainer, point_dataset(), {.steps = 5, .batch = 8, .output = folder.path() / "run"});
  loop.on_step = [](const Loop::Step&) { throw std::runtime_error("the first"); };
  loop.on_save = [](const Loop::Saved&) { throw 42; };
  std::string warning;
  loop.on_warning = [&](const std::string& text) { warning = text; };
  EXPECT_THROW(loop.run(), std::runtime_error);
  EXPECT_NE(warning.find("no std::exception"), std::string::npos) << warning;
}

}  // namespace
}  // namespace sluice::training
