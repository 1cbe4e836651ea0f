// Errors of checkpoints and output folders told a program that calls the library what to write into a config, and named options of the
// command line.
#include <gtest/gtest.h>

#include "parallel/checkpoint.h"
#include "parallel/plan.h"
#include "tests/expect_error.h"
#include "tests/temporary_folder.h"
#include "tests/training/point_classifier.h"

namespace sluice::parallel {
namespace {

Trainer trainer_of(const layers::Graph& graph, const Optimizer& optimizer) {
  return {graph, plan(graph, devices("cpu:0"), {.batch = 4}), optimizer};
}

TEST(CuresOfTheLibrary, NameItsOwnOptionsForACheckpointOfAnotherTraining) {
  const TemporaryFolder folder;
  const layers::Graph graph = training::point_classifier();
  const Trainer plain = trainer_of(graph, SGD({}));
  const Checkpoint checkpoint = open_checkpoint(OutputFolder(folder.path() / "run").save(plain, "", {}, 1));
  Trainer with_momentum = trainer_of(graph, SGD({.momentum = 0.9}));
  expect_error<DataError>([&] { restore(checkpoint, with_momentum); }, {"Graph::freeze", "parallel::initialize", "--init"});
  SGD averaged({});
  averaged.ema = 0.9;
  Trainer with_averages = trainer_of(graph, averaged);
  expect_error<DataError>([&] { restore(checkpoint, with_averages); },
                          {"Optimizer::ema (optimizer.ema)", "parallel::initialize", "--init"});
}

TEST(CuresOfTheLibrary, NameItsOwnOptionsForAnOutputFolder) {
  expect_error<ResourceError>([] { OutputFolder("/proc/nowhere"); }, {"LoopOptions::output, [output] dir"});
}

}  // namespace
}  // namespace sluice::parallel
