// A schedule of the user's own went by its name: called "1f1b" or "auto", it was replaced by that one without a word.
#include <gtest/gtest.h>

#include "layers/cross_entropy.h"
#include "layers/linear.h"
#include "parallel/plan.h"
#include "tests/parallel/pipelines.h"

namespace sluice::parallel {
namespace {

layers::Graph chain() {
  layers::Graph graph;
  auto x = graph.input("x", {3});
  const auto label = graph.input("label", {}, DType::i32);
  for (const char* name : {"a", "b", "c"}) x = graph.add(name, layers::Linear(3, 3), x);
  graph.loss(graph.add("loss", layers::CrossEntropy(), {x, label}));
  return graph;
}

TEST(AScheduleOfOnesOwn, KeepsItsOrderWhateverItIsCalled) {
  for (const char* name : {"mine.csv", "1f1b", "zb-v", "auto", ""})
    for (const RematChoice& remat : {RematChoice(Remat::none), {kOpen}}) {
      SCOPED_TRACE(join("'", name, "', remat choice ", sluice::testing::text_of(remat)));
      Schedule own = make_schedule(NamedSchedule::gpipe, 2, 4);
      own.name = name;
      const Plan chosen = plan(chain(), devices("cpu:0,cpu:1"), {.batch = 8, .micro_batches = 4, .schedule = own, .remat = remat});
      EXPECT_EQ(schedule_of(chosen, 4).devices, own.devices);
      EXPECT_EQ(name_of(chosen.schedule), name);
    }
}

TEST(AScheduleOfOnesOwn, DecidesTheNumberOfMicroBatchesWhereThatIsOpen) {
  const Schedule own = make_schedule(NamedSchedule::gpipe, 2, 4);
  EXPECT_EQ(plan(chain(), devices("cpu:0,cpu:1"), {.batch = 8, .micro_batches = kOpen, .schedule = own}).micro_batches, 4);
}

}  // namespace
}  // namespace sluice::parallel
