// Over several ranks an evaluation never asked whether it was to stop.
#include <gtest/gtest.h>

#include <mutex>

#include "data/tensor_dataset.h"
#include "parallel/group/thread_group.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "training/evaluation.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6;

std::unique_ptr<Trainer> trainer_of(const layers::Graph& graph, Group& group) {
  const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  TrainerOptions options{.seed = 7, .timeout_seconds = 60};
  options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), options);
}

TEST(RanksOfWhichOneStops, LeaveAnEvaluationTogetherAndGoOn) {
  const auto graph = skip_graph();
  std::mutex mutex;
  run_ranks(2, [&](Group& group) {
    const auto trainer = trainer_of(graph, group);
    const auto evaluate = [&](int stopping) {
      return trainer->evaluate(skip_batch(kSamples, 1), false, [&] { return group.rank() == stopping; }).loss_sum;
    };
    const double before = evaluate(-1);
    for (const int rank : {0, 1}) expect_error<StoppedError>([&] { evaluate(rank); }, {join("rank ", rank), "stopped"});
    const double after = evaluate(-1);
    trainer->step(skip_batch(kSamples, 1));
    std::lock_guard lock(mutex);
    EXPECT_EQ(after, before);
    EXPECT_EQ(trainer->steps_done(), 1);
  });
}

TEST(RanksOfWhichOneStops, LeaveTheEvaluationOfASplitAtOneMiniBatch) {
  const auto graph = skip_graph();
  const auto inputs = [] {
    const Batch batch = skip_batch(4 * kSamples, 1);
    return data::TensorDataset::Inputs{{"image", batch.load("image", 0, batch.samples)}, {"label", batch.load("label", 0, batch.samples)}};
  };
  const auto dataset = std::make_shared<data::TensorDataset>(inputs(), inputs());
  std::mutex mutex;
  run_ranks(2, [&](Group& group) {
    const auto trainer = trainer_of(graph, group);
    data::ValidationLoader batches(dataset, data::LoaderOptions{.batch = kSamples}, 0);
    int asked = 0;
    const auto evaluation = training::evaluate(*trainer, batches, {}, [&] { return group.rank() == 1 && ++asked == 3; });
    const auto whole = training::evaluate(*trainer, batches);
    std::lock_guard lock(mutex);
    EXPECT_FALSE(evaluation.is_complete);
    EXPECT_TRUE(evaluation.loss.has_value()) << "of two mini-batches";
    EXPECT_TRUE(whole.is_complete);
  });
}

}  // namespace
}  // namespace sluice::parallel
