// eval, inspect and generate that met a checkpoint which its training pruned ended with an error, though a newer one was there.
#include <gtest/gtest.h>

#include "cli/trained_model.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::cli {
namespace {

class PrunedWhileRead : public ::testing::Test {
 protected:
  void save_next() {
    trainer_.step(testing::skip_batch(6, 1));
    output_.save(trainer_, "", {}, 1);
  }

  TemporaryFolder folder_;
  layers::Graph graph_ = testing::skip_graph();
  parallel::Trainer trainer_{graph_, parallel::plan(graph_, devices("cpu:0"), {.batch = 6}), SGD({})};
  parallel::OutputFolder output_{folder_.path() / "run"};
};

TEST_F(PrunedWhileRead, GivesWayToTheNewestOfThatTime) {
  save_next();
  std::vector<int64_t> steps;
  const int code = with_checkpoint(output_.path(), parallel::Wanted::weights, [&](const parallel::Checkpoint& checkpoint) {
    steps.push_back(checkpoint.step);
    if (steps.size() < 3) save_next();
    parallel::restore_weights(checkpoint, false, trainer_);
    return [] { return 7; };
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(PrunedWhileRead, IsAnErrorWhenItWasNamedItself) {
  save_next();
  const auto named = std::filesystem::path(output_.path()) / "step-00000001";
  EXPECT_THROW(with_checkpoint(named, parallel::Wanted::weights,
                               [&](const parallel::Checkpoint& checkpoint) {
                                 save_next();
                                 parallel::restore_weights(checkpoint, false, trainer_);
                                 return [] { return 0; };
                               }),
               DataError);
}

TEST_F(PrunedWhileRead, LeavesOtherErrorsAsTheyAre) {
  save_next();
  int calls = 0;
  EXPECT_THROW(with_checkpoint(output_.path(), parallel::Wanted::weights,
                               [&](const parallel::Checkpoint&) -> AfterReading {
                                 ++calls;
                                 throw UsageError("no");
                               }),
               UsageError);
  EXPECT_EQ(calls, 1);
}

/// A translation began anew with the next line, and nobody was told of the lines that were lost.
TEST_F(PrunedWhileRead, IsNotReadAgainForWhatFailsAfterwards) {
  save_next();
  int reads = 0;
  const auto read = [&](const parallel::Checkpoint&) -> AfterReading {
    ++reads;
    return [&]() -> int {
      save_next();
      throw DataError("line 2");
    };
  };
  EXPECT_THROW(with_checkpoint(output_.path(), parallel::Wanted::weights, read), DataError);
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace sluice::cli
