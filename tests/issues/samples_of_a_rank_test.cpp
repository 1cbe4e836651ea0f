#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "parallel/group/thread_group.h"
#include "parallel/trainer.h"
#include "tests/parallel/tiny_models.h"

/// Of replicas over several ranks each prefetches the samples that it trains on: before, every rank loaded the whole mini-batch, and one that
/// reads no input loaded all of them.
namespace sluice::parallel {
namespace {

using sluice::testing::image_batch;
using sluice::testing::image_graph;

constexpr int64_t kSamples = 7;

/// What is asked of a batch beyond the one sample that tells its shape.
Batch watched(const Batch& batch, std::mutex& mutex, std::vector<std::pair<int64_t, int64_t>>& images) {
  return {batch.samples, [&, batch](const std::string& input, int64_t first, int64_t count) {
            std::lock_guard lock(mutex);
            if (input == "image" && !(first == 0 && count == 1)) images.emplace_back(first, first + count);
            return batch.load(input, first, count);
          }};
}

TEST(SamplesOfARank, AreThoseThatItsReplicasRead) {
  const auto graph = image_graph();
  for (const ReplicaDevices which : {ReplicaDevices::together, ReplicaDevices::apart}) {
    SCOPED_TRACE(name_of(which));
    std::mutex mutex;
    std::vector<std::pair<int64_t, int64_t>> parts(4);
    run_ranks(4, [&](Group& group) {
      Plan plan =
          parallel::plan(graph, devices("4x cpu"), {.batch = kSamples, .micro_batches = 5, .replicas = 2, .replica_devices = which});
      TrainerOptions options;
      options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
      Trainer trainer(graph, plan, SGD({.lr = 1e-2}), options);
      std::mutex of_loads;
      std::vector<std::pair<int64_t, int64_t>> images;
      trainer.step(watched(image_batch(kSamples, 1), of_loads, images));
      trainer.evaluate(watched(image_batch(kSamples, 2), of_loads, images));
      const auto part = trainer.samples_here()("image", kSamples);
      EXPECT_EQ(trainer.samples_here()("label", kSamples), std::pair(int64_t{0}, kSamples)) << "the loss weighs all of them";
      const bool reads = std::ranges::count(trainer.inputs_here(), "image") > 0;
      EXPECT_EQ(reads, !images.empty());
      for (const auto& [begin, end] : images) EXPECT_TRUE(part.first <= begin && end <= part.second) << begin << ".." << end;
      std::lock_guard lock(mutex);
      if (reads) parts[static_cast<size_t>(group.rank())] = part;
    });
    std::erase(parts, std::pair<int64_t, int64_t>());
    ASSERT_EQ(parts.size(), 2u) << "the first stages of two replicas";
    std::ranges::sort(parts);
    EXPECT_EQ(parts[0].first, 0);
    EXPECT_EQ(parts[0].second, parts[1].first);
    EXPECT_EQ(parts[1].second, kSamples);
  }
}

}  // namespace
}  // namespace sluice::parallel
