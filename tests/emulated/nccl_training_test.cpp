// Trainings over several ranks with GPUs, all emulated: ranks are threads, NCCL carries what goes between their GPUs.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <tuple>

#include "core/cuda/choices.h"
#include "core/cuda/cuda.h"
#include "emulation.h"
#include "parallel/group/collectives.h"
#include "parallel/group/thread_group.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/plan_codec.h"
#include "parallel/run/certificate.h"
#include "parallel/run/executor.h"
#include "parallel/run/job_devices.h"
#include "tests/emulated/nccl_job.h"
#include "tests/emulation/cublas.h"
#include "tests/emulation/nccl.h"
#include "tests/emulation/runtime.h"
#include "tests/expect_error.h"
#include "tests/parallel/replica_jobs.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

using emulation::emulated_cublas;
using emulation::emulated_nccl;
using sluice::testing::BatchMaker;
using sluice::testing::describe;
using sluice::testing::image_batch;
using sluice::testing::image_graph;
using sluice::testing::skip_batch;
using sluice::testing::skip_graph;
using sluice::testing::tiny_transformer_options;
using sluice::testing::token_batch;
using sluice::testing::train;
using sluice::testing::trainer_of;
using Job = sluice::testing::ReplicaJob;
using Outcome = sluice::testing::ReplicaOutcome;

constexpr int kGpus = 4;

class NcclTraining : public ::testing::Test {
 protected:
  ~NcclTraining() override { emulation::forget_nccl(); }
};

/// Each job against one GPU, first in one process with the same devices, then over ranks that have one GPU each at the least.
void expect_one_answer(const layers::Graph& graph, int64_t samples, std::vector<Job> jobs, const BatchMaker& batch) {
  Job one = jobs.at(0);
  one.replicas = one.stages = one.ranks = one.gpus = 1;
  const Outcome outcome = train(graph, one, samples, batch);
  for (Job job : jobs) {
    job.gpus = std::min(kGpus, job.devices());
    EXPECT_EQ(train(graph, job, samples, batch), outcome) << describe(job);
    const size_t moved = emulated_nccl().bytes_moved;
    for (int ranks = 2; ranks <= job.gpus; ranks *= 2) {
      job.ranks = ranks;
      EXPECT_EQ(train(graph, job, samples, batch), outcome) << describe(job);
    }
    EXPECT_GT(emulated_nccl().bytes_moved, moved) << describe(job);
  }
  EXPECT_EQ(emulated_nccl().live_communicators, 0);
}

TEST_F(NcclTraining, GivesOneAnswerForPipelinesWithTiedWeights) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_v}) {
    const Job base{.fold_blocks = 1, .schedule = schedule, .micro_batches = 4};
    Job two = base, four = base;
    two.stages = 2;
    four.stages = 4;
    expect_one_answer(graph, 8, {two, four}, batch);
  }
}

TEST_F(NcclTraining, GivesOneAnswerForReplicas) {
  auto options = tiny_transformer_options();
  options.vocab = 4100;  // the tied embedding is cut into shards
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  expect_one_answer(graph, 8,
                    {{.replicas = 2, .micro_batches = 4},
                     {.replicas = 2, .shards_optimizer = false, .micro_batches = 4},
                     {.replicas = 2, .stages = 2, .micro_batches = 4},
                     {.replicas = 2, .stages = 2, .shards_optimizer = false, .schedule = NamedSchedule::gpipe, .micro_batches = 4}},
                    batch);
}

TEST_F(NcclTraining, GivesOneAnswerInBf16WithMovingAverages) {
  const auto options = tiny_transformer_options();
  const layers::Graph graph = models::transformer_lm(options);
  const Job base{.micro_batches = 4, .precision = Precision::bf16, .ema = 0.9};
  Job pipeline = base, replicas = base;
  pipeline.stages = 2;
  replicas.replicas = 2;
  expect_one_answer(graph, 8, {pipeline, replicas}, [&](uint64_t seed) { return token_batch(options, 8, seed); });
}

TEST_F(NcclTraining, GivesOneAnswerForRunningStatistics) {
  const Job base{.micro_batches = 5, .ema = 0.5};
  Job pipeline = base, replicas = base;
  pipeline.stages = 4;
  replicas.replicas = replicas.stages = 2;
  expect_one_answer(image_graph(), 10, {pipeline, replicas}, [](uint64_t seed) { return image_batch(10, seed); });
}

TEST_F(NcclTraining, GivesOneAnswerForADagWithSkipsThatIsRecomputed) {
  const Job job{.stages = 4, .fold_blocks = 1, .micro_batches = 3, .remat = Remat::full};
  expect_one_answer(skip_graph(), 9, {job}, [](uint64_t seed) { return skip_batch(9, seed); });
}

TEST_F(NcclTraining, GivesOneAnswerWithCudaGraphs) {
  const Job job{.stages = 2, .fold_blocks = 1, .micro_batches = 3, .cuda_graphs = CudaGraphs::on};
  expect_one_answer(skip_graph(), 9, {job}, [](uint64_t seed) { return skip_batch(9, seed); });
}

/// Two stages of each GPU of two: what stays on a rank takes no link.
TEST_F(NcclTraining, GivesOneAnswerWithSeveralDevicesOnAGpu) {
  Job job{.stages = 4, .ranks = 2, .fold_blocks = 1, .micro_batches = 3};
  const auto batch = [](uint64_t seed) { return skip_batch(9, seed); };
  job.gpus = 4;
  const Outcome four = train(skip_graph(), job, 9, batch);
  job.gpus = 2;
  EXPECT_EQ(train(skip_graph(), job, 9, batch), four);
}

TEST_F(NcclTraining, GoesOnFromCheckpointsOfOtherRanksAndReplicas) {
  auto options = tiny_transformer_options();
  options.vocab = 4100;
  const layers::Graph graph = models::transformer_lm(options);
  const auto batch = [&](uint64_t seed) { return token_batch(options, 8, seed); };
  const std::vector<Job> jobs = {{.micro_batches = 4, .ema = 0.9, .gpus = 1},
                                 {.stages = 2, .ranks = 2, .micro_batches = 4, .ema = 0.9, .gpus = 2},
                                 {.replicas = 2, .stages = 2, .ranks = 4, .micro_batches = 4, .ema = 0.9, .gpus = 4}};
  sluice::testing::expect_checkpoints_go_on(graph, jobs, 8, batch);
}

/// An evaluation has no gradients, and so no channels for them.
TEST_F(NcclTraining, ConnectsTheChannelsThatAProgramIsTheFirstToUse) {
  run_ranks(2, [](Group& group) {
    const auto trainer = trainer_of(group, skip_graph(), {.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 2}, 6);
    const auto live = [&] {
      barrier(group);
      const int communicators = emulated_nccl().live_communicators;
      barrier(group);
      return communicators;
    };
    EXPECT_EQ(live(), 0);
    trainer->evaluate(skip_batch(6, 1));
    EXPECT_EQ(live(), 2) << "both ends of the way there";
    for (uint64_t step = 0; step < 2; ++step) trainer->step(skip_batch(6, step));
    EXPECT_EQ(live(), 4) << "and of the way back";
    trainer->evaluate(skip_batch(6, 1));
    EXPECT_EQ(live(), 4);
  });
  EXPECT_EQ(emulated_nccl().live_communicators, 0);
}

/// While a run lasts it is the transport's.
TEST_F(NcclTraining, HasOneThreadOfEachRankThatCallsNcclInAStep) {
  run_ranks(2, [](Group& group) {
    const auto trainer = trainer_of(group, skip_graph(), {.stages = 4, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 4}, 6);
    trainer->step(skip_batch(6, 0));
    barrier(group);
    if (group.is_root()) emulated_nccl().launching_threads.clear();
    barrier(group);
    trainer->step(skip_batch(6, 1));
  });
  EXPECT_EQ(emulated_nccl().launching_threads.size(), 4u);
  for (const auto& [gpu, threads] : emulated_nccl().launching_threads) EXPECT_EQ(threads.size(), 1u) << gpu;
}

TEST_F(NcclTraining, DoesNotBeginWhereARankHasNoUsableNccl) {
  const Job job{.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 2};
  for (const auto& [version, words] : {std::pair<int, std::string>{0, "rank 1: pipeline.devices: the emulated machine has no NCCL"},
                                       {22703, "rank 1: pipeline.devices: "},
                                       {23003, "one version of NCCL on all ranks, got NCCL 2.28.9 on rank 0 and 2.30.3 on rank 1"}}) {
    std::atomic<int> refused = 0;
    run_ranks(2, [&](Group& group) {
      if (group.rank() == 1) emulation::install_nccl_for_thread(version);
      expect_error<UsageError>([&] { trainer_of(group, skip_graph(), job, 6); }, {words, "install"});
      ++refused;
    });
    EXPECT_EQ(refused, 2);
  }
}

/// Runs a job whose ranks fail, until all have ended, and gives what each one said.
std::vector<std::string> failures(const Job& job, const std::function<void(Group&, Trainer&)>& run) {
  std::vector<std::string> texts(job.ranks);
  std::atomic<int> ended = 0;
  run_ranks(job.ranks, [&](Group& group) {
    {
      const auto trainer = trainer_of(group, skip_graph(), job, 6);
      try {
        run(group, *trainer);
        texts[group.rank()] = "no failure";
      } catch (const HangError& error) {
        texts[group.rank()] = join("HangError: ", error.what());
      } catch (const CommError& error) {
        texts[group.rank()] = join("CommError: ", error.what());
      } catch (const std::exception& error) {
        texts[group.rank()] = error.what();
      }
    }
    ++ended;
    while (ended < job.ranks) std::this_thread::yield();
    if (group.is_root()) emulation::tear_down_gpus();
  });
  emulation::bring_back_gpus();
  return texts;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << "\n lacks: " << word;
}

constexpr Job kFourRanks{.stages = 4, .ranks = 4, .fold_blocks = 1, .micro_batches = 3, .gpus = 4};

TEST_F(NcclTraining, EndsOnAllRanksWhenOneFailsInAStep) {
  const auto texts = failures(kFourRanks, [](Group& group, Trainer& trainer) {
    trainer.step(skip_batch(6, 0));
    Batch batch = skip_batch(6, 1);
    if (group.is_root())
      batch.load = [load = batch.load](const std::string& name, int64_t first, int64_t count) {
        if (first > 1) throw DataError("sample 2 is damaged");
        return load(name, first, count);
      };
    trainer.step(batch);
  });
  expect_words(texts[0], {"sample 2 is damaged"});
  for (int rank = 1; rank < 4; ++rank) expect_words(texts[rank], {"CommError", "rank 0", "sample 2 is damaged"});
}

TEST_F(NcclTraining, EndsOnAllRanksWhenNcclFailsInAStep) {
  const auto texts = failures(kFourRanks, [](Group& group, Trainer& trainer) {
    trainer.step(skip_batch(6, 0));
    barrier(group);
    if (group.is_root()) std::tie(emulated_nccl().failing_call, emulated_nccl().failing_gpu) = std::pair("ncclSend", 1);
    barrier(group);
    trainer.step(skip_batch(6, 1));
  });
  expect_words(texts[1], {"CommError", "nccl: ncclSend(", "a failure that a test planted", "NCCL_DEBUG=INFO"});
  for (const int rank : {0, 2, 3}) expect_words(texts[rank], {"CommError", "a failure that a test planted"});
}

/// Ranks that wait in NCCL for the one that fails do not come back.
TEST_F(NcclTraining, EndsOnAllRanksWhenOneCannotConnect) {
  std::tie(emulated_nccl().failing_call, emulated_nccl().failing_gpu) = std::pair("ncclCommInitRankConfig", 1);
  const auto texts = failures({.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 2},
                              [](Group&, Trainer& trainer) { trainer.step(skip_batch(6, 0)); });
  expect_words(texts[1], {"CommError", "ncclCommInitRankConfig failed", "a failure that a test planted"});
  expect_words(texts[0], {"HangError", "NCCL has not connected the GPUs of all ranks: rank 1: ", "a failure that a test planted",
                          "NCCL_SOCKET_IFNAME"});
}

TEST_F(NcclTraining, EndsOnAllRanksWhenOneDoesNotComeToConnect) {
  const auto texts =
      failures({.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 2}, [](Group& group, Trainer& trainer) {
        trainer.executor().set_timeout_seconds(0.2);
        if (group.is_root()) trainer.step(skip_batch(6, 0));
        while (group.failure().empty()) std::this_thread::yield();
        throw CommError(group.failure());
      });
  expect_words(texts[0], {"CommError", "rank 0 needed a message of rank 1 within 0."});
  expect_words(texts[1], {"CommError", "rank 0: ", "needed a message of rank 1"});
}

TEST_F(NcclTraining, RefusesAGpuThatTwoRanksHave) {
  const auto texts = failures({.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 1},
                              [](Group&, Trainer& trainer) { trainer.step(skip_batch(6, 0)); });
  for (const std::string& text : texts) expect_words(text, {"CommError", "give each rank GPUs of its own"});
}

/// GPUs of other ranks may be on other machines.
TEST_F(NcclTraining, MakesOnlyTheGpusOfItsRank) {
  const auto live = [] {
    std::array<size_t, kGpus> bytes;
    std::lock_guard lock(emulation::runtime().mutex);
    for (int gpu = 0; gpu < kGpus; ++gpu) bytes[gpu] = emulation::runtime().memory.live_bytes(gpu);
    return bytes;
  };
  auto wanted = live();
  for (size_t& bytes : wanted) bytes += Cuda::kOwnBytes;
  run_ranks(2, [&](Group& group) {
    const auto all = devices_of_job("4x cuda", {.budget_bytes = int64_t{1} << 30}, {}, &group);
    const DeviceRanks ranks(4, group);
    for (int device = 0; device < 4; ++device) {
      EXPECT_EQ(all[device]->name(), join("cuda:", device));
      EXPECT_EQ(all[device]->budget_bytes(), int64_t{1} << 30);
      EXPECT_EQ(all[device]->live_bytes(), Cuda::kOwnBytes);
      EXPECT_EQ(describe_gpu(*all[device]).multiprocessors, 132);
      if (ranks.is_here(device)) continue;
      expect_error<Error>([&] { empty({3}, DType::f32, all[device]); }, {join("cuda:", device), "another rank's"});
    }
    barrier(group);
    EXPECT_EQ(live(), wanted) << "each is made once";
    barrier(group);
  });
}

/// As on two hosts: what rank 1 calls cuda:1, as the job does, is another number among the GPUs that it sees.
TEST_F(NcclTraining, TakesGpusByOtherNumbersThanTheirNames) {
  const Job job{.stages = 2, .ranks = 2, .fold_blocks = 1, .micro_batches = 2, .gpus = 2};
  const auto hash_of = [&](const std::function<std::unique_ptr<Trainer>(Group&)>& make) {
    std::string hash;
    run_ranks(2, [&](Group& group) {
      const auto trainer = make(group);
      trainer->step(skip_batch(6, 0));
      const std::string mine = trainer->weights_hash();
      if (group.is_root()) hash = mine;
    });
    return hash;
  };
  const auto on_gpus = [&](Group& group) {
    constexpr int kGpuOfRank[] = {2, 3};
    std::vector<DevicePtr> all;
    for (int device = 0; device < 2; ++device) {
      Device::Options options{.gpu = kGpuOfRank[device]};
      if (device != group.rank()) options.elsewhere = std::make_shared<const GpuDescription>(describe_gpu(0));
      all.push_back(make_device(DeviceName{"cuda", device}, options, {}));
      EXPECT_EQ(all.back()->name(), join("cuda:", device));
    }
    EXPECT_EQ(all[group.rank()]->cuda().index(), kGpuOfRank[group.rank()]);
    return trainer_of(group, skip_graph(), job, 6, all);
  };
  emulated_nccl().launching_threads.clear();
  const std::string hash = hash_of(on_gpus);
  EXPECT_TRUE(emulated_nccl().launching_threads.contains(2) && emulated_nccl().launching_threads.contains(3));
  EXPECT_EQ(emulated_nccl().launching_threads.size(), 2u);
  EXPECT_EQ(hash, hash_of([&](Group& group) { return trainer_of(group, skip_graph(), job, 6); }));
}

TEST_F(NcclTraining, TellsTheKindOfItsGpusInItsCertificate) {
  const Certificate certificate = make_certificate("", skip_graph(), "", devices("cuda:0,cuda:1"));
  EXPECT_EQ(certificate.gpus,
            join("emulated GPU with 132 multiprocessors, driver ", describe_gpu(0).driver_version, ", cuBLAS 0, no cuDNN"));
  EXPECT_EQ(make_certificate("", skip_graph(), "", devices("cpu:0")).gpus, "");
}

TEST_F(NcclTraining, TriesOnAllRanksWhereOneWantsIt) {
  Choices::of_process().forget();
  emulated_cublas().trials = 0;
  emulated_cublas().ran.clear();
  run_ranks(2, [&](Group& group) {
    const auto all = devices_of_job("cuda:0,cuda:1", {}, {}, &group);
    const layers::Graph graph = skip_graph();
    const Plan chosen = planned_by_root(&group, all, [&] { return plan(graph, all, {.batch = 6, .micro_batches = 2}); });
    TrainerOptions options{.seed = 3, .tuning = group.is_root() ? Tuning::off : Tuning::quick};
    options.group = std::shared_ptr<Group>(std::shared_ptr<Group>(), &group);
    Trainer trainer(graph, chosen, AdamW({.lr = 1e-2}), options);
    for (int step = 0; step < 2; ++step) trainer.step(skip_batch(6, step));
  });
  EXPECT_GT(emulated_cublas().trials, 0);
  for (const auto& [kind, ran] : emulated_cublas().ran) EXPECT_EQ(ran, gpu_choices().at(kind));
}

TEST_F(NcclTraining, RefusesGpusThatARankLacks) {
  std::atomic<int> refused = 0;
  run_ranks(3, [&](Group& group) {
    expect_error<UsageError>([&] { devices_of_job("6x cuda", {}, {}, &group); },
                             {"rank 2: pipeline.devices", "cuda:4 to be GPU 4 of ", "this rank sees 4", "cuda:0 for each rank"});
    expect_error<UsageError>([&] { devices_of_job("4x cuda", {}, {}, &group); }, {"equally many devices", "3 ranks, got 4"});
    ++refused;
  });
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace sluice::parallel
