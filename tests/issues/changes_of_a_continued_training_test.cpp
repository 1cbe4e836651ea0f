// A training that goes on with another kind of schedule compared the settings after it with their neighbours: the lists of the two trainings
// had train.steps in one of them only. The warnings named keys that had not changed, and the last one read beyond a list.
#include <gtest/gtest.h>

#include "cli/continued.h"

namespace sluice::cli {
namespace {

Settings with(const char* assignment) {
  Settings settings;
  settings.set(assignment);
  return settings;
}

TEST(ChangesOfAContinuedTraining, AreThoseOfTheKeysThatChanged) {
  const Settings cosine = with("optimizer.schedule=cosine"), constant = with("optimizer.schedule=constant");
  for (const auto& [before, now] : {std::pair(&cosine, &constant), std::pair(&constant, &cosine)}) {
    const auto changes = changes_of_answer(*before, *now);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_NE(changes[0].find("optimizer.schedule"), std::string::npos) << changes[0];
  }
  EXPECT_TRUE(changes_of_answer(cosine, cosine).empty());
}

TEST(ChangesOfAContinuedTraining, AreNotThoseOfThePipelineOrOfAFreeEnd) {
  for (const char* assignment : {"pipeline.micro_batches=4", "data.cache=elsewhere", "data.threads=3", "train.baseline=true",
                                 "train.evaluate_batches=3", "train.on_nonfinite=skip"})
    EXPECT_TRUE(changes_of_answer(Settings(), with(assignment)).empty()) << assignment;
  EXPECT_FALSE(changes_of_answer(with("train.patience=2"),
                                 [] {
                                   Settings settings = with("train.patience=2");
                                   settings.set("train.evaluate_batches=3");
                                   return settings;
                                 }())
                   .empty());
  EXPECT_TRUE(changes_of_answer(with("optimizer.schedule=constant"),
                                [] {
                                  Settings settings = with("optimizer.schedule=constant");
                                  settings.set("train.steps=77");
                                  return settings;
                                }())
                  .empty());
}

}  // namespace
}  // namespace sluice::cli
