// NCCL on GPUs or emulated ones, with ranks as threads: the transport between ranks on one GPU, over links that send to themselves, and a training
// on two.
#include <gtest/gtest.h>

#include <mutex>

#include "core/cuda/cuda.h"
#include "core/cuda/nccl.h"
#include "parallel/group/collectives.h"
#include "parallel/group/thread_group.h"
#include "parallel/run/gpu_rank_transport.h"
#include "parallel/run/nccl_links.h"
#include "tests/parallel/replica_jobs.h"
#include "tests/parallel/self_links.h"
#include "tests/parallel/tiny_models.h"
#include "tests/parallel/transfer_programs.h"
#include "tests/parallel/transfer_run.h"

namespace sluice::parallel {
namespace {

using sluice::testing::SelfLinks;
using sluice::testing::TransferRun;

class CudaNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& reason : {cuda_unavailable_reason(), nccl::unavailable_reason()})
      if (!reason.empty()) GTEST_SKIP() << reason;
  }

  static void expect_the_bytes_of_the_local_transport(const TransferRun& run, int ranks) {
    const auto wanted = run.alone([](int) { return make_device("cpu:0"); });
    const SelfLinks links(0,
                          channels_between_ranks(run.program(), DeviceRanks(run.program().device_count(), *make_thread_groups(ranks)[0])));
    std::mutex mutex;
    TransferRun::Arrived arrived;
    run_ranks(ranks, [&](Group& group) {
      const DeviceRanks mine(run.program().device_count(), group);
      std::vector<DevicePtr> devices(mine.devices());
      for (int device = 0; device < mine.devices(); ++device)
        if (mine.is_here(device)) devices[device] = make_device("cuda:0");
      const GpuLinks ends = links.of(mine);
      auto transport = make_gpu_rank_transport(group, mine, ends, make_local_transport(mine.per_rank()));
      auto here = run.on_rank(devices, mine, *transport);
      EXPECT_EQ(transport->bytes_from_ranks(), run.bytes_from_ranks(mine));
      barrier(group);  // what one end has told may not have been heard by the other
      std::lock_guard lock(mutex);
      arrived.merge(here);
    });
    EXPECT_EQ(arrived, wanted);
  }
};

TEST_F(CudaNccl, MovesTheBytesOfTheLocalTransportWithLeftOutGradientsAndManyMicroBatches) {
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}) {
    for (const int ranks : {2, 4}) expect_the_bytes_of_the_local_transport({sluice::testing::skip_program(schedule, 9), 1, 20000}, ranks);
  }
}

/// Beyond what NCCL buffers: 4 MiB for each of its CTAs.
TEST_F(CudaNccl, MovesMessagesThatFillNoBuffer) {
  const bool is_emulated = describe_gpu(0).name.find("emulated") != std::string::npos;
  const int elements = is_emulated ? 5 << 18 : 5 << 20;
  expect_the_bytes_of_the_local_transport({sluice::testing::pair_program(3), elements, elements}, 2);
}

TEST_F(CudaNccl, TrainsOverTwoRanksWithTheBitsOfOneProcess) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto batch = [](uint64_t seed) { return sluice::testing::image_batch(10, seed); };
  for (sluice::testing::ReplicaJob job : {sluice::testing::ReplicaJob{.stages = 2}, {.replicas = 2}}) {
    job.gpus = 2;
    const auto alone = train(sluice::testing::image_graph(), job, 10, batch);
    job.ranks = 2;
    EXPECT_EQ(train(sluice::testing::image_graph(), job, 10, batch), alone) << describe(job);
  }
}

}  // namespace
}  // namespace sluice::parallel
