// Training on a GPU, or on the emulated one: the CPU's losses, one answer whatever the partition, bytes as predicted.
#include "core/cuda/cuda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/graph_scope.h"
#include "parallel/checkpoint.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;

struct Choice {
  std::string devices = "cuda:0";
  NamedSchedule schedule = NamedSchedule::one_f_one_b;
  Remat remat = Remat::none;
  Precision precision = Precision::f32;
  CudaGraphs graphs = CudaGraphs::off;
  int replicas = 1, fold_blocks = 1;
};

/// The emulation runs a step in seconds, a GPU in milliseconds.
bool is_emulated() { return describe_gpu(0).name.find("emulated") != std::string::npos; }

/// Of skip_batch; all that crosses has rows of 5 floats.
layers::Graph padded_graph() {
  using namespace layers;
  Graph graph;
  Value y = graph.input("image", {6});
  const Value label = graph.input("label", {}, DType::i32);
  y = graph.add("first", Linear(6, 5), y);
  for (const char* name : {"second", "third"}) y = graph.add(name, Linear(5, 5), y);
  graph.loss(graph.add("loss", CrossEntropy(), {y, label}));
  return graph;
}

class CudaTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }

  Plan plan_of(const Choice& choice) const {
    return plan(graph_, devices(choice.devices),
                {.batch = kSamples,
                 .micro_batches = 4,
                 .schedule = choice.schedule,
                 .partition = PartitionRule::uniform,
                 .remat = choice.remat,
                 .precision = choice.precision,
                 .replicas = choice.replicas,
                 .fold_blocks = choice.fold_blocks});
  }

  Batch batch(uint64_t seed) const { return token_batch(options_, kSamples, seed); }

  struct Outcome {
    std::vector<double> losses;
    std::string hash;
    std::vector<GraphCounts> graphs = {};  ///< by device
  };
  Outcome train(const Choice& choice, int steps) const {
    const AdamW optimizer({.lr = 1e-2});
    const Plan chosen = plan_of(choice);
    Trainer trainer(graph_, chosen, optimizer, {.seed = 3, .clip = 0.5, .cuda_graphs = choice.graphs});
    const Prediction training = predict(graph_, chosen, optimizer, kSamples, {});
    const Prediction evaluating = predict_evaluation(graph_, chosen, optimizer, kSamples, false);
    Outcome outcome;
    for (int step = 0; step < steps; ++step) outcome.losses.push_back(trainer.step(batch(step)).loss);
    const auto evaluation = trainer.evaluate(batch(77));
    outcome.losses.push_back(evaluation.loss_sum / evaluation.weight);
    outcome.hash = trainer.weights_hash();
    for (const auto& device : chosen.devices) outcome.graphs.push_back(graph_counts(*device));
    for (size_t i = 0; i < chosen.devices.size(); ++i)
      EXPECT_EQ(chosen.devices[i]->peak_bytes(), std::max(training.devices[i].peak_bytes, evaluating.devices[i].peak_bytes))
          << choice.devices << ", device " << i;
    return outcome;
  }

  static void expect_close(const Outcome& ours, const Outcome& reference, double relative) {
    ASSERT_EQ(ours.losses.size(), reference.losses.size());
    for (size_t i = 0; i < ours.losses.size(); ++i)
      EXPECT_NEAR(ours.losses[i], reference.losses[i], relative * std::abs(reference.losses[i])) << "step " << i;
  }

  /// Three steps: one that warms up, one that makes the graphs, one that updates them.
  void expect_same_with_graphs(const Outcome& reference, const Choice& choice) const {
    const Outcome outcome = train(choice, 3);
    EXPECT_EQ(outcome.hash, reference.hash) << choice.devices << ' ' << name_of(choice.schedule) << ' ' << name_of(choice.remat);
    EXPECT_EQ(outcome.losses, reference.losses) << choice.devices << ' ' << name_of(choice.schedule) << ' ' << name_of(choice.remat);
    for (const auto& counts : outcome.graphs) {
      EXPECT_GT(counts.instantiated, 0);
      EXPECT_EQ(counts.launched, 2 * counts.instantiated) << "the third step updates the graphs of the second";
    }
  }

  static constexpr int64_t kSamples = 8;
  models::TransformerOptions options_ = tiny_transformer_options();
  layers::Graph graph_ = models::transformer_lm(options_);
  layers::Graph padded_ = padded_graph();
};

TEST_F(CudaTraining, FollowsTheLossesOfTheCpu) {
  const int steps = is_emulated() ? 3 : 50;
  const Outcome cpu = train({.devices = "cpu:0"}, steps);
  expect_close(train({}, steps), cpu, is_emulated() ? 1e-4 : 1e-3);
}

TEST_F(CudaTraining, FollowsTheLossesOfTheCpuInBf16) {
  const int steps = is_emulated() ? 3 : 50;
  expect_close(train({.precision = Precision::bf16}, steps), train({.devices = "cpu:0", .precision = Precision::bf16}, steps), 2e-2);
}

TEST_F(CudaTraining, HasOneAnswerWhateverThePartitionScheduleAndRematerialization) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Outcome reference = train({.precision = precision}, 2);
    for (const char* names : {"cuda:0,cuda:0", "cuda:0,cuda:0,cuda:0,cuda:0"})
      for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b})
        for (const Remat remat : {Remat::none, Remat::full}) {
          const Outcome outcome = train({names, schedule, remat, precision}, 2);
          EXPECT_EQ(outcome.hash, reference.hash) << names << ' ' << name_of(schedule) << ' ' << name_of(remat);
          EXPECT_EQ(outcome.losses, reference.losses) << names << ' ' << name_of(schedule) << ' ' << name_of(remat);
        }
  }
}

TEST_F(CudaTraining, HasOneAnswerWhateverTheReplicas) {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Outcome reference = train({.precision = precision, .fold_blocks = 4}, 2);
    const auto expect_same = [&](const char* names, int replicas) {
      const Outcome outcome = train({.devices = names, .precision = precision, .replicas = replicas, .fold_blocks = 4}, 2);
      EXPECT_EQ(outcome.hash, reference.hash) << replicas << " replicas on " << names << ", " << name_of(precision);
      EXPECT_EQ(outcome.losses, reference.losses) << replicas << " replicas on " << names << ", " << name_of(precision);
    };
    for (const int replicas : {2, 4}) expect_same("cuda:0,cuda:0,cuda:0,cuda:0", replicas);
    if (cuda_device_count() > 1) expect_same("cuda:0,cuda:1", 2);
  }
}

TEST_F(CudaTraining, HasOneAnswerOverTwoGpus) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const Outcome reference = train({}, 2), outcome = train({.devices = "cuda:0,cuda:1"}, 2);
  EXPECT_EQ(outcome.hash, reference.hash);
  EXPECT_EQ(outcome.losses, reference.losses);
}

// Rows of 5 floats lie 8 apart. The copy that makes them row-major has to be of the sender's work before the moment that it sends: one that
// the receiver starts when it comes for them is enqueued behind that moment, and the transfer reads what the copy's memory held before.
TEST_F(CudaTraining, HasOneAnswerWherePaddedRowsCrossToAnotherGpu) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto losses = [&](const char* names) {
    Trainer trainer(padded_, plan(padded_, devices(names), {.batch = kSamples, .micro_batches = 4, .partition = PartitionRule::uniform}),
                    AdamW({.lr = 1e-2}), {.seed = 3});
    std::vector<double> all;
    for (int step = 0; step < 3; ++step) all.push_back(trainer.step(sluice::testing::skip_batch(kSamples, step)).loss);
    return all;
  };
  EXPECT_EQ(losses("cuda:0,cuda:1"), losses("cuda:0"));
}

TEST_F(CudaTraining, HasTheSameAnswerWithGraphs) {
  const std::vector<std::string> names = {"cuda:0", "cuda:0,cuda:0", "cuda:0,cuda:0,cuda:0,cuda:0"};
  const Outcome reference = train({}, 3);
  for (const auto& counts : reference.graphs) EXPECT_EQ(counts.launched, 0);
  for (const auto& devices : names)
    for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b})
      for (const Remat remat : {Remat::none, Remat::full})
        expect_same_with_graphs(reference, {devices, schedule, remat, Precision::f32, CudaGraphs::on});
}

TEST_F(CudaTraining, HasTheSameAnswerWithGraphsInBf16) {
  expect_same_with_graphs(train({.precision = Precision::bf16}, 3),
                          {"cuda:0,cuda:0", NamedSchedule::one_f_one_b, Remat::none, Precision::bf16, CudaGraphs::on});
}

TEST_F(CudaTraining, HasTheSameAnswerWithGraphsOverTwoGpus) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const Outcome reference = train({}, 3);
  for (const Remat remat : {Remat::none, Remat::full})
    expect_same_with_graphs(reference, {"cuda:0,cuda:1", NamedSchedule::one_f_one_b, remat, Precision::f32, CudaGraphs::on});
}

TEST_F(CudaTraining, ResumesFromACheckpointOnAnotherPartition) {
  const TemporaryFolder folder;
  const AdamW optimizer({.lr = 1e-2});
  Trainer first(graph_, plan_of({}), optimizer, {.seed = 3}), second(graph_, plan_of({.devices = "cuda:0,cuda:0"}), optimizer, {.seed = 3});
  first.step(batch(0));
  restore(open_checkpoint(OutputFolder(folder.path() / "run").save(first, "", {}, 1)), second);
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
  EXPECT_EQ(first.step(batch(1)).loss, second.step(batch(1)).loss);
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
}

TEST_F(CudaTraining, RefusesABadTokenAndChangesNoWeight) {
  for (const CudaGraphs graphs : {CudaGraphs::off, CudaGraphs::on}) {
    Trainer trainer(graph_, plan_of({.devices = "cuda:0,cuda:0"}), AdamW({.lr = 1e-2}), {.seed = 3, .clip = 0.5, .cuda_graphs = graphs});
    trainer.step(batch(0));
    const std::string before = trainer.weights_hash();
    Batch bad = batch(0);
    bad.load = [load = bad.load](const std::string& name, int64_t first, int64_t count) {
      const Tensor tokens = load(name, first, count).clone();
      if (name == "tokens") tokens.data<int32_t>()[1] = 4711;
      return tokens;
    };
    expect_error<UsageError>([&] { trainer.step(bad); }, {"got 4711 at position 1", "cuda:0"});
    EXPECT_EQ(trainer.weights_hash(), before);
    EXPECT_TRUE(std::isfinite(trainer.step(batch(0)).loss));
  }
}

}  // namespace
}  // namespace sluice::parallel
