// Promise 2 of docs/design.md: BatchNorm's running statistics follow each mini-batch once, from the micro-batches that really ran.
#include "parallel/run/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/cuda/cuda.h"
#include "core/ops/running_statistics.h"
#include "parallel/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"
#include "tests/temporary_folder.h"

namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;

constexpr int64_t kSamples = 7;

std::unique_ptr<Trainer> trainer_with(int micro_batches, Remat remat = Remat::none, const std::string& device_list = "cpu:0") {
  const layers::Graph graph = image_graph();
  const Plan chosen = plan(graph, devices(device_list),
                           {.batch = kSamples, .micro_batches = micro_batches, .partition = PartitionRule::uniform, .remat = remat});
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), TrainerOptions{.seed = 5, .clip = 1});
}

Batch batch_without_number() {
  Batch batch = image_batch(kSamples, 2);
  batch.load = [load = batch.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" ? full({count, 5, 6, 3}, NAN) : load(input, first, count);
  };
  return batch;
}

/// What one mini-batch makes of the statistics of "norm", whose input is the image: momentum 0.9, the unbiased variance.
void follow(const Batch& batch, std::vector<double>& mean, std::vector<double>& variance) {
  const std::vector<double> x = batch.load("image", 0, batch.samples).to_vector();
  const size_t channels = mean.size(), count = x.size() / channels;
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = c; i < x.size(); i += channels) sum += x[i];
    const double center = sum / static_cast<double>(count);
    for (size_t i = c; i < x.size(); i += channels) squares += (x[i] - center) * (x[i] - center);
    mean[c] = 0.9 * mean[c] + 0.1 * center;
    variance[c] = 0.9 * variance[c] + 0.1 * squares / static_cast<double>(count - 1);
  }
}

TEST(RunningStatistics, FollowTheMiniBatchWhateverItsMicroBatchesAndRecomputation) {
  for (int micro_batches : {1, 3, 7})
    for (const Remat remat : {Remat::none, Remat::full}) {
      const auto trainer = trainer_with(micro_batches, remat);
      std::vector<double> mean(3, 0), variance(3, 1);
      for (uint64_t step : {1, 2}) {
        trainer->step(image_batch(kSamples, step));
        follow(image_batch(kSamples, step), mean, variance);
      }
      const auto model = trainer->model();
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(model.at("norm.running_mean").to_vector()[c], mean[c], 1e-6)
            << micro_batches << " micro-batches, remat " << name_of(remat);
        EXPECT_NEAR(model.at("norm.running_variance").to_vector()[c], variance[c], 1e-5) << micro_batches << ", remat " << name_of(remat);
      }
    }
}

TEST(RunningStatistics, HaveTheNamesOfTheirNodes) {
  const auto model = trainer_with(1)->model();
  for (const char* name : {"norm.running_mean", "norm.running_variance", "block.norm.running_mean", "block.norm.running_variance"})
    EXPECT_TRUE(model.contains(name)) << name;
  EXPECT_EQ(model.at("block.norm.running_variance").to_vector(), std::vector<double>(8, 1));
}

TEST(RunningStatistics, AreWhatEvaluationUsesAndDoesNotChange) {
  const auto trainer = trainer_with(1);
  for (uint64_t step : {1, 2, 3}) trainer->step(image_batch(kSamples, step));
  const std::string before = trainer->weights_hash();
  const Batch batch = image_batch(kSamples, 9);
  double of_single_samples = 0;
  for (int64_t sample = 0; sample < kSamples; ++sample)
    of_single_samples +=
        trainer->evaluate({1, [&](const std::string& input, int64_t, int64_t) { return batch.load(input, sample, 1); }}).loss_sum;
  EXPECT_NEAR(trainer->evaluate(batch).loss_sum, of_single_samples, 1e-4) << "a sample's result does not depend on the others";
  EXPECT_EQ(trainer->weights_hash(), before);
  const double evaluated = trainer->evaluate(batch).loss_sum / kSamples, trained = trainer->step(batch).loss;
  EXPECT_GT(std::abs(evaluated - trained), 1e-3) << "training takes the moments of the batch";
}

TEST(RunningStatistics, StayAsTheyAreWhenAStepFails) {
  const auto trainer = trainer_with(3, Remat::none, "cpu:0,cpu:1"), undisturbed = trainer_with(3, Remat::none, "cpu:0,cpu:1");
  const Batch without_number = batch_without_number();
  Batch misshapen = image_batch(kSamples, 2);  // from its second micro-batch on
  misshapen.load = [load = misshapen.load](const std::string& input, int64_t first, int64_t count) {
    return input == "image" && first > 0 ? zeros({count, 5, 6, 4}) : load(input, first, count);
  };
  for (uint64_t seed : {1, 3}) {
    EXPECT_EQ(trainer->step(image_batch(kSamples, seed)).loss, undisturbed->step(image_batch(kSamples, seed)).loss);
    expect_error<Error>([&] { trainer->step(without_number); }, {"not finite"});
    EXPECT_EQ(trainer->weights_hash(), undisturbed->weights_hash());
    expect_error<UsageError>([&] { trainer->step(misshapen); }, {"input 'image'", "[5, 6, 4]"});
    EXPECT_EQ(trainer->weights_hash(), undisturbed->weights_hash());
  }
}

TEST(RunningStatistics, GoOnBitForBitFromACheckpoint) {
  TemporaryFolder folder;
  OutputFolder output(folder.path() / "run");
  const auto trainer = trainer_with(3);
  for (uint64_t step : {1, 2}) trainer->step(image_batch(kSamples, step));
  const Checkpoint checkpoint = open_checkpoint(output.save(*trainer, "", {}, 1));
  const auto loaded = load_parameters(checkpoint, image_graph(), Precision::bf16);
  EXPECT_EQ(loaded.at("norm.running_mean").to_vector(), trainer->model().at("norm.running_mean").to_vector());
  trainer->step(image_batch(kSamples, 3));
  for (const char* device_list : {"cpu:0", "cpu:0,cpu:1,cpu:2"}) {
    const auto resumed = trainer_with(3, Remat::full, device_list);
    restore(checkpoint, *resumed);
    EXPECT_EQ(resumed->weights_hash(), checkpoint.weights_hash);
    resumed->step(image_batch(kSamples, 3));
    EXPECT_EQ(resumed->weights_hash(), trainer->weights_hash()) << device_list;
  }
}

TEST(CudaTrainingOfBatchNorm, HasOneAnswerThatIsNearTheCpus) {
  if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const auto cpu = trainer_with(3), whole = trainer_with(3, Remat::none, "cuda:0"), cut = trainer_with(3, Remat::full, "cuda:0,cuda:0");
  for (Trainer* trainer : {cpu.get(), whole.get(), cut.get()}) trainer->step(image_batch(kSamples, 1));
  const auto expected = cpu->model(), computed = whole->model();  // after one step: Adam makes whole steps of gradients that only round
  for (const char* name : {"norm.running_mean", "norm.running_variance", "block.norm.running_mean", "block.norm.running_variance"})
    for (int64_t c = 0; c < expected.at(name).elements(); ++c)
      EXPECT_NEAR(computed.at(name).to_vector()[c], expected.at(name).to_vector()[c], 1e-5) << name << ", channel " << c;
  EXPECT_NEAR(whole->evaluate(image_batch(kSamples, 9)).loss_sum, cpu->evaluate(image_batch(kSamples, 9)).loss_sum, 0.05);
  for (Trainer* trainer : {whole.get(), cut.get()}) {
    const std::string before = trainer->weights_hash();
    expect_error<Error>([&] { trainer->step(batch_without_number()); }, {"not finite"});
    EXPECT_EQ(trainer->weights_hash(), before);
    trainer->step(image_batch(kSamples, 2));
  }
  EXPECT_EQ(whole->weights_hash(), cut->weights_hash());
}

TEST(RunningStatistics, OfASingleNumberHaveNoVariance) {
  const Tensor mean = zeros({2}), variance = full({2}, 1, DType::f32);
  update_running_statistics({{mean, variance, {{full({2}, 4), zeros({2}), 1}}, 0.75}});
  EXPECT_EQ(mean.to_vector(), std::vector<double>(2, 1));
  EXPECT_EQ(variance.to_vector(), std::vector<double>(2, 0.75));
}

TEST(RunningStatistics, RefuseMomentsThatDoNotFit) {
  const Tensor mean = zeros({2}), variance = full({2}, 1, DType::f32);
  expect_error<UsageError>([&] { update_running_statistics({{mean, variance, {}, 0.9}}); }, {"needs parts"});
  expect_error<UsageError>(
      [&] {
        update_running_statistics({{mean, variance, {{zeros({3}), zeros({2}), 4}}, 0.9}});
      },
      {"needs means like the running mean", "[3]"});
}

/// How many numbers another replica's micro-batches saw is not sent: it follows from their samples.
TEST(StatisticsOfReplicas, NeedAsManyNumbersOfEverySample) {
  const layers::Graph graph = image_graph();
  const auto device = default_device();
  const std::vector<int64_t> first_sample = {0, 2, 3, 5};
  const auto added = [&](int64_t first_count, int64_t second_count) {
    StageStatistics statistics(graph, 0, static_cast<int>(graph.nodes().size()), device, false);
    int64_t elements = 0;
    for (int node = 0; node < static_cast<int>(graph.nodes().size()); ++node)
      for (const auto& [micro_batch, count] : {std::pair{0, first_count}, {1, second_count}}) {
        std::vector<std::vector<BatchMoments>> seen;
        for (const int index : graph.nodes()[node].statistics) {
          const Shape channels{graph.statistics()[index].spec.channels};
          seen.push_back({{zeros(channels), full(channels, 1), count}});
          if (micro_batch == 0) elements += 2 * channels[0];
        }
        statistics.observe(node, micro_batch, std::move(seen));
      }
    EXPECT_EQ(statistics.expected({2, 3})->shape, Shape{elements});
    statistics.add(zeros({elements}), {2, 3}, first_sample);
    for (const auto& entry : statistics.entries()) EXPECT_EQ(entry.observed.at(2).at(0).count, first_count);
  };
  added(60, 30);
  expect_error<UsageError>([&] { added(60, 31); },
                           {"as many numbers of every sample", "60 of 2 samples and 31 of 1", "train with one replica"});
  expect_error<UsageError>([&] { added(61, 61); }, {"as many numbers of every sample"});
}

}  // namespace
}  // namespace sluice::parallel
