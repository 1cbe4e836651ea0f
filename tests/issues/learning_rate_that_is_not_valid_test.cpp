// A learning rate that says nothing, such as a cosine without an end, was taken by the trainer and meant something else.
#include <gtest/gtest.h>

#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice {
namespace {

TEST(LearningRateThatIsNotValid, IsRefusedByTheTrainer) {
  const layers::Graph graph = testing::skip_graph();
  const auto train_with = [&](const LearningRate& rate) {
    SGD optimizer({});
    optimizer.rate = rate;
    parallel::Trainer(graph, parallel::plan(graph, devices("cpu:0"), {.batch = 6}), optimizer);
  };
  expect_error<UsageError>([&] { train_with({.kind = LearningRate::Kind::cosine}); }, {"cosine", "total_steps"});
  expect_error<UsageError>([&] { train_with({.base = -1}); }, {"base", "-1"});
  EXPECT_NO_THROW(train_with({.kind = LearningRate::Kind::cosine, .total_steps = 10}));
}

TEST(LearningRateThatIsNotValid, WordOfAConfigNamesTheNearest) {
  EXPECT_EQ(rate_kind_named("inverse-sqrt"), LearningRate::Kind::inverse_sqrt);
  expect_error<UsageError>([] { rate_kind_named("cosin"); }, {"'cosin'", "did you mean 'cosine'?"});
}

}  // namespace
}  // namespace sluice
