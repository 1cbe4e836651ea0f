// A rank on which a mini-batch could not be loaded threw alone, and the others computed its next one with the targets of another.
#include <gtest/gtest.h>

#include <mutex>

#include "parallel/group/thread_group.h"
#include "parallel/run/rank_transport.h"
#include "parallel/trainer.h"
#include "tests/expect_error.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using sluice::testing::skip_batch;
using sluice::testing::skip_graph;

constexpr int kSamples = 6, kRanks = 2;

std::unique_ptr<Trainer> trainer_of(const layers::Graph& graph, Group* group, double timeout_seconds = 60) {
  const Plan chosen = plan(graph, devices("cpu:0,cpu:1"), {.batch = kSamples, .micro_batches = 2, .partition = PartitionRule::uniform});
  TrainerOptions options{.seed = 7, .timeout_seconds = timeout_seconds};
  if (group) options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), group);
  return std::make_unique<Trainer>(graph, chosen, AdamW({.lr = 1e-2}), options);
}

/// A mini-batch whose labels are made by `labels`; they are read on the last rank alone.
Batch with_labels(uint64_t seed, std::function<Tensor(int64_t count)> labels) {
  Batch batch = skip_batch(kSamples, seed);
  batch.load = [load = batch.load, labels = std::move(labels)](const std::string& input, int64_t first, int64_t count) {
    return input == "label" ? labels(count) : load(input, first, count);
  };
  return batch;
}

Batch without_targets(uint64_t seed) {
  return with_labels(seed, [](int64_t count) { return full({count}, -100, DType::i32); });
}

/// Can show its shape.
Batch that_cannot_be_loaded(uint64_t seed) {
  return with_labels(seed, [](int64_t count) {
    require<DataError>(count == 1, "labels.bin is cut short");
    return zeros({count}, DType::i32);
  });
}

Batch that_throws_what_is_no_error(uint64_t seed) {
  return with_labels(seed, [](int64_t count) -> Tensor {
    if (count > 1) throw 7;
    return zeros({count}, DType::i32);
  });
}

std::string hash_of_two_steps(const layers::Graph& graph) {
  const auto trainer = trainer_of(graph, nullptr);
  for (const uint64_t seed : {1, 2}) trainer->step(skip_batch(kSamples, seed));
  return trainer->weights_hash();
}

/// Steps, calls `fails`, which is to throw an E on all ranks, and steps once more.
template <class E>
void expect_error_on_all(const std::function<void(Trainer&, int rank)>& fails, std::initializer_list<std::string> words) {
  const auto graph = skip_graph();
  const std::string expected = hash_of_two_steps(graph);
  std::mutex mutex;
  run_ranks(kRanks, [&](Group& group) {
    const auto trainer = trainer_of(graph, &group);
    trainer->step(skip_batch(kSamples, 1));
    expect_error<E>([&] { fails(*trainer, group.rank()); }, words);
    trainer->step(skip_batch(kSamples, 2));
    const std::string hash = trainer->weights_hash();
    std::lock_guard lock(mutex);
    EXPECT_EQ(trainer->steps_done(), 2);
    EXPECT_EQ(hash, expected);
  });
}

TEST(ARankThatFailsBeforeARun, ThrowsItsErrorOnAllAndTheyGoOn) {
  expect_error_on_all<UsageError>([](Trainer& trainer, int) { trainer.step(without_targets(3)); },
                                  {"rank 1: step: needs a mini-batch with at least one target"});
  expect_error_on_all<DataError>([](Trainer& trainer, int) { trainer.step(that_cannot_be_loaded(3)); }, {"rank 1: labels.bin is cut"});
  expect_error_on_all<DataError>([](Trainer& trainer, int) { trainer.evaluate(that_cannot_be_loaded(3)); }, {"rank 1: labels.bin is cut"});
  expect_error_on_all<Error>([](Trainer& trainer, int) { trainer.step(that_throws_what_is_no_error(3)); }, {"rank 1", "std::exception"});
}

TEST(RanksThatAreToRunDifferentThings, SayWhich) {
  const auto step_or_evaluate = [](Trainer& trainer, int rank) {
    rank == 0 ? static_cast<void>(trainer.step(skip_batch(kSamples, 3))) : static_cast<void>(trainer.evaluate(skip_batch(kSamples, 3)));
  };
  expect_error_on_all<UsageError>(step_or_evaluate, {"rank 0 came to step 2 of 6 samples", "rank 1 to an evaluation before step 2"});
  expect_error_on_all<UsageError>([](Trainer& trainer, int rank) { trainer.step(skip_batch(kSamples + rank, 3)); },
                                  {"step 2 of 6 samples", "step 2 of 7 samples"});
}

TEST(ARankThatDoesNotCome, EndsTheJobWhenTheTimeIsOver) {
  const auto graph = skip_graph();
  expect_error<CommError>(
      [&] {
        run_ranks(kRanks, [&](Group& group) {
          const auto trainer = trainer_of(graph, &group, 0.2);
          if (group.is_root()) return static_cast<void>(trainer->step(skip_batch(kSamples, 1)));
          while (group.failure().empty()) std::this_thread::yield();
        });
      },
      {"rank 1", "0.2", "got none", "this rank had come to step 1 of 6 samples"});
}

TEST(RanksInDifferentRuns, DoNotTakeEachOthersMessages) {
  run_ranks(kRanks, [&](Group& group) {
    const MessageKey key{{Payload::activation, 5, -1, 0, 1}, 3};
    const auto device = make_device("cpu:0");
    const auto transport_of = [&](uint8_t run) {
      return make_rank_transport(group, DeviceRanks(kRanks, group), make_local_transport(1), run);
    };
    for (const int other : {0, 1}) {
      const auto transport = transport_of(static_cast<uint8_t>(group.rank() * other));
      if (group.is_root()) {
        transport->send({0, 1}, key, {zeros({2}), {}, 0});
        EXPECT_EQ(transport->finish_send({0, 1}, key, other ? 0.2 : 30).has_value(), !other);
      } else {
        transport->post({0, 1}, key, {device, zeros({2}), {}});
        EXPECT_EQ(transport->receive({0, 1}, key, other ? 0.2 : 30).has_value(), !other);
      }
    }
  });
}

}  // namespace
}  // namespace sluice::parallel
