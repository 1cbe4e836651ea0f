#include "parallel/run/graph_choice.h"

#include <gtest/gtest.h>

namespace sluice::parallel {
namespace {

/// Runs steps of the given times and returns which of them used graphs.
std::vector<bool> run(GraphChoice& choice, int steps, double with_graphs, double without) {
  std::vector<bool> used;
  for (int step = 0; step < steps; ++step) {
    used.push_back(choice.next());
    choice.note(choice.next() ? with_graphs : without);
  }
  return used;
}

TEST(GraphChoice, OffNeverUsesThemAndOnAfterTheFirstStep) {
  GraphChoice off(CudaGraphs::off, true), on(CudaGraphs::on, true), impossible(CudaGraphs::on, false);
  EXPECT_EQ(run(off, 3, 1, 2), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(run(on, 3, 2, 1), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(run(impossible, 3, 1, 2), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(off.text(), "off");
  EXPECT_EQ(on.text(), "on");
  EXPECT_TRUE(on.is_made());
}

TEST(GraphChoice, AutomaticTriesBothInTurnAndKeepsTheFaster) {
  for (const bool graphs_win : {true, false}) {
    GraphChoice choice(CudaGraphs::automatic, true);
    const auto used = run(choice, GraphChoice::kStepsUntilMade, graphs_win ? 0.010 : 0.020, 0.015);
    EXPECT_FALSE(used[0]) << "the first step warms up";
    for (int step = GraphChoice::kWarmUp + GraphChoice::kInstantiations; step + 1 < GraphChoice::kStepsUntilMade; ++step)
      EXPECT_NE(used[step], used[step + 1]);
    ASSERT_TRUE(choice.is_made());
    EXPECT_EQ(choice.next(), graphs_win);
    EXPECT_EQ(choice.text(), graphs_win ? "auto: on, 10.00 ms a step with graphs, 15.00 ms without"
                                        : "auto: off, 20.00 ms a step with graphs, 15.00 ms without");
  }
}

TEST(GraphChoice, AutomaticGoesByMediansAndNotByOneSlowStep) {
  GraphChoice choice(CudaGraphs::automatic, true);
  bool disturbed = false;
  while (!choice.is_made()) {
    const bool trial_of_graphs = choice.next() && choice.seconds(false) > 0 && !disturbed;
    disturbed = disturbed || trial_of_graphs;
    choice.note(trial_of_graphs ? 5.0 : choice.next() ? 0.010 : 0.015);
  }
  EXPECT_TRUE(disturbed);
  EXPECT_TRUE(choice.next());
  EXPECT_EQ(choice.seconds(true), 0.010);
}

TEST(GraphChoice, SaysThatItIsNotMadeYet) {
  GraphChoice choice(CudaGraphs::automatic, true);
  run(choice, 4, 1, 1);
  EXPECT_FALSE(choice.is_made());
  EXPECT_EQ(choice.text(), "auto: not decided yet, which takes 13 steps");
}

}  // namespace
}  // namespace sluice::parallel
