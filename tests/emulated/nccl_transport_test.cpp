// The transport between ranks over emulated NCCL: ranks are threads, each pair of devices has a communicator of two ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "core/ops/copy.h"
#include "emulation.h"
#include "parallel/group/collectives.h"
#include "parallel/group/thread_group.h"
#include "parallel/run/gpu_rank_transport.h"
#include "parallel/run/nccl_links.h"
#include "tests/emulated/nccl_job.h"
#include "tests/emulation/nccl.h"
#include "tests/expect_error.h"
#include "tests/parallel/random_graph.h"
#include "tests/parallel/transfer_programs.h"
#include "tests/parallel/transfer_run.h"

namespace sluice::parallel {
namespace {

using emulation::emulated_nccl;
using sluice::testing::Draw;
using sluice::testing::random_program;
using sluice::testing::skip_program;
using sluice::testing::TransferRun;

constexpr int kGpus = 4;
constexpr double kPatience = 60;

/// Each rank has GPUs of its own, which its devices share.
DevicePtr gpu_device(const DeviceRanks& ranks, int device) {
  const int gpus = kGpus / ranks.ranks();
  return make_device(join("cuda:", ranks.of(device) * gpus + device % ranks.per_rank() % gpus));
}

std::vector<DevicePtr> devices_of(const DeviceRanks& ranks) {
  std::vector<DevicePtr> devices(ranks.devices());
  for (int device = 0; device < ranks.devices(); ++device)
    if (ranks.is_here(device)) devices[device] = gpu_device(ranks, device);
  return devices;
}

/// All devices of the program get one number of them a rank, the last ones perhaps with nothing to do.
Program filled_up(Program program, int ranks) {
  program.devices.resize((program.devices.size() + ranks - 1) / ranks * ranks);
  return program;
}

TransferRun::Arrived over_nccl(const TransferRun& run, int ranks) {
  std::mutex mutex;
  TransferRun::Arrived arrived;
  run_ranks(ranks, [&](Group& group) {
    const DeviceRanks mine(run.program().device_count(), group);
    const auto devices = devices_of(mine);
    GpuLinks links;
    connect_by_nccl(group, mine, devices, channels_between_ranks(run.program(), mine), kPatience, links);
    auto transport = make_gpu_rank_transport(group, mine, links, make_local_transport(mine.per_rank()));
    auto here = run.on_rank(devices, mine, *transport);
    require<Error>(transport->bytes_from_ranks() == run.bytes_from_ranks(mine), "a count of bytes is wrong");
    barrier(group);  // what one end has told may not have been heard by the other
    std::lock_guard lock(mutex);
    arrived.merge(here);
  });
  return arrived;
}

class NcclTransport : public ::testing::Test {
 protected:
  ~NcclTransport() override { emulation::forget_nccl(); }
};

TEST_F(NcclTransport, GivesTheBytesOfTheLocalTransportForAnyProgram) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Draw draw(seed);
    emulated_nccl().fifo_bytes = static_cast<size_t>(draw.from(16, 4000));
    const int ranks = draw.from(2, 4);
    const TransferRun run(filled_up(random_program(seed), ranks), 1, draw.from(1, 1500));
    EXPECT_EQ(over_nccl(run, ranks), run.alone([](int) { return make_device("cpu:0"); })) << "seed " << seed;
  }
}

TEST_F(NcclTransport, GivesTheBytesOfTheLocalTransportBetweenGpusForManyMicroBatches) {
  emulated_nccl().fifo_bytes = 1000;
  for (const auto schedule : {NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::zb_h1}) {
    const TransferRun run(skip_program(schedule, 12), 1, 700);
    const auto local = run.alone([](int device) { return make_device(join("cuda:", device)); });
    for (const int ranks : {2, 4}) EXPECT_EQ(over_nccl(run, ranks), local) << name_of(schedule) << ", " << ranks << " ranks";
  }
}

TEST_F(NcclTransport, OneThreadOfEachRankCallsNcclForItsGpusWhileARunLasts) {
  const TransferRun run(skip_program(NamedSchedule::one_f_one_b, 5), 1, 700);
  run_ranks(2, [&](Group& group) {
    const DeviceRanks mine(4, group);
    const auto devices = devices_of(mine);
    GpuLinks links;
    connect_by_nccl(group, mine, devices, channels_between_ranks(run.program(), mine), kPatience, links);
    barrier(group);
    if (group.is_root()) emulated_nccl().launching_threads.clear();
    barrier(group);
    auto transport = make_gpu_rank_transport(group, mine, links, make_local_transport(2));
    run.on_rank(devices, mine, *transport);
    barrier(group);
  });
  EXPECT_EQ(emulated_nccl().launching_threads.size(), 4u);
  for (const auto& [gpu, threads] : emulated_nccl().launching_threads) EXPECT_EQ(threads.size(), 1u) << gpu;
}

TEST_F(NcclTransport, ConnectsOnlyWhatIsNotConnected) {
  run_ranks(2, [](Group& group) {
    const DeviceRanks mine(4, group);
    const auto devices = devices_of(mine);
    GpuLinks links;
    const auto connect = [&](const std::set<ChannelEnds>& channels) { connect_by_nccl(group, mine, devices, channels, kPatience, links); };
    connect({{0, 2}, {3, 1}});
    connect({{0, 2}, {2, 0}, {3, 1}});
    EXPECT_EQ(links.size(), 3u);
    barrier(group);
    EXPECT_EQ(emulated_nccl().live_communicators, 6) << "two ends each";
    barrier(group);
  });
  EXPECT_EQ(emulated_nccl().live_communicators, 0);
}

TEST_F(NcclTransport, AllRanksRefuseWhatOneOfThemCannotUse) {
  for (const auto& [version, words] : {std::pair<int, std::string>{0, "has no NCCL"},
                                       {22703, "2.27.3, and Sluice needs 2.28.9"},
                                       {23003, "one version of NCCL on all ranks, got NCCL 2.28.9 on rank 0 and 2.30.3 on rank 2"}}) {
    std::atomic<int> refused = 0;
    run_ranks(3, [&](Group& group) {
      if (group.rank() == 2) emulation::install_nccl_for_thread(version);
      expect_error<UsageError>([&] { require_one_nccl(group); }, {"pipeline.devices: ", words, "install"});
      ++refused;
    });
    EXPECT_EQ(refused, 3);
  }
}

TEST_F(NcclTransport, ALinkWhoseFirstBytesDoNotComeIsNamed) {
  emulated_nccl().fifo_bytes = 0;
  std::atomic<int> failed = 0;
  run_ranks(2, [&](Group& group) {
    const DeviceRanks mine(2, group);
    const auto devices = devices_of(mine);
    GpuLinks links;
    expect_error<CommError>(
        [&] {
          connect_by_nccl(group, mine, devices, {{1, 0}}, 0.05, links);
        },
        {"nccl: needed the first bytes from device 1 to device 0 within 0.05 s", "NCCL_DEBUG=INFO"});
    ++failed;
    while (failed < 2) std::this_thread::yield();
    emulation::tear_down_gpus();
  });
  emulation::bring_back_gpus();
}

TEST(ChannelsBetweenRanks, AreThoseThatTheProgramUses) {
  const auto groups = make_thread_groups(2);
  const Program program = skip_program(NamedSchedule::gpipe, 2);
  const std::set<ChannelEnds> between = {{0, 2}, {0, 3}, {1, 2}, {2, 0}, {2, 1}, {3, 0}};
  EXPECT_EQ(channels_between_ranks(program, DeviceRanks(4, *groups[0])), between);
  EXPECT_EQ(channels_between_ranks(program, DeviceRanks(4)), std::set<ChannelEnds>());
}

/// Calls a function where NCCL would be called, and has ended at once.
class PlantedLink : public GpuLink {
 public:
  explicit PlantedLink(std::function<void()> call) : call_(std::move(call)) {}
  HasEnded send(const Tensor&, const Event&) override { return call_(), nullptr; }
  HasEnded receive(const Tensor&, const Event&) override { return call_(), nullptr; }
  void check() override {}
  void abandon() noexcept override {}

 private:
  std::function<void()> call_;
};

// The thread that begins transfers was the last to let go of a tensor: memory that a program had freed was still charged, or a device went
// beyond its budget, whenever that thread was in another call of NCCL.
TEST(GpuRankTransport, LetsGoOfWhatWasSentWhileAnotherTransferBegins) {
  constexpr ChannelEnds kThere{0, 1}, kBack{1, 0};
  const auto key = [](int micro_batch) { return MessageKey{{Payload::activation, 5, -1, 0, 1}, micro_batch}; };
  const DevicePtr devices[2] = {make_device("cuda:0"), make_device("cuda:1")};
  const auto groups = make_thread_groups(2);
  std::unique_ptr<Transport> transports[2];
  std::promise<void> end_of_call;
  GpuLinks links[2];
  const auto link = [&](int rank, const ChannelEnds& ends, std::function<void()> call) {
    links[rank].emplace(ends, std::make_unique<PlantedLink>(std::move(call)));
  };
  const auto tensor = [&](int rank) { return full({8}, 1, DType::f32, devices[rank]); };
  const auto post = [&](int rank, const ChannelEnds& ends, int micro_batch) {
    transports[rank]->post(ends, key(micro_batch), {devices[rank], tensor(rank), {}});
  };
  link(0, kThere, [&, back = tensor(1)] { transports[1]->send(kBack, key(1), {back, {}, 0}); });
  link(0, kBack, [&] { end_of_call.get_future().wait(); });
  link(1, kThere, [] {});
  link(1, kBack, [] {});
  for (int rank = 0; rank < 2; ++rank)
    transports[rank] = make_gpu_rank_transport(*groups[rank], DeviceRanks(2, *groups[rank]), links[rank], make_local_transport(1));
  post(1, kThere, 0);
  post(0, kBack, 1);
  const int64_t before = devices[0]->live_bytes();
  transports[0]->send(kThere, key(0), {tensor(0), {}, 0});
  EXPECT_TRUE(transports[0]->finish_send(kThere, key(0), kPatience));
  EXPECT_EQ(devices[0]->live_bytes(), before);
  end_of_call.set_value();
  EXPECT_TRUE(transports[0]->receive(kBack, key(1), kPatience));
  EXPECT_TRUE(transports[1]->finish_send(kBack, key(1), kPatience));
  EXPECT_TRUE(transports[1]->receive(kThere, key(0), kPatience));
  for (auto& transport : transports) transport.reset();
}

/// Two ranks with a device each, in one thread.
class NcclTransportEnds : public NcclTransport {
 protected:
  struct Rank {
    std::unique_ptr<Group> group;
    DevicePtr device;
    GpuLinks links;
    std::unique_ptr<Transport> transport;
  };

  NcclTransportEnds() {
    auto groups = make_thread_groups(2);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([this, rank, group = groups[rank].get()] {
        const DeviceRanks ranks(2, *group);
        const auto devices = devices_of(ranks);
        ranks_[rank].device = devices[rank];
        connect_by_nccl(*group, ranks, devices, {{0, 1}}, kPatience, ranks_[rank].links);
        ranks_[rank].transport = make_gpu_rank_transport(*group, ranks, ranks_[rank].links, make_local_transport(1));
      });
    threads.clear();
    for (int rank = 0; rank < 2; ++rank) ranks_[rank].group = std::move(groups[rank]);
  }
  ~NcclTransportEnds() override {
    for (Rank& rank : ranks_) rank.transport.reset();
    for (Rank& rank : ranks_) rank.links.clear();
  }

  static constexpr ChannelEnds kEnds{0, 1};
  static MessageKey key(int micro_batch) { return {{Payload::activation, 5, -1, 0, 1}, micro_batch}; }

  const DevicePtr& sender() const { return ranks_[0].device; }
  const DevicePtr& receiver() const { return ranks_[1].device; }
  void send(int micro_batch, const Tensor& tensor) {
    ranks_[0].transport->send(kEnds, key(micro_batch), {tensor, {sender()->record()}, 0});
  }
  void send(int micro_batch, double value) { send(micro_batch, full({8}, value, DType::f32, sender())); }
  void post(int micro_batch, int elements = 8) {
    ranks_[1].transport->post(kEnds, key(micro_batch), {receiver(), room_for({elements}, DType::f32, receiver()), {receiver()->record()}});
  }
  std::optional<Message> receive(int micro_batch, double seconds = kPatience) {
    return ranks_[1].transport->receive(kEnds, key(micro_batch), seconds);
  }
  bool finish(int micro_batch, double seconds = kPatience) {
    return ranks_[0].transport->finish_send(kEnds, key(micro_batch), seconds).has_value();
  }

  Rank ranks_[2];
};

TEST_F(NcclTransportEnds, HandOverWhatWasSentAndPostedAndIsReceivedInAnyOrder) {
  for (int m = 0; m < 3; ++m) send(m, m);
  for (int m = 0; m < 3; ++m) post(m);
  for (const int m : {2, 0, 1}) EXPECT_EQ(receive(m)->tensor.to_vector(), std::vector<double>(8, m));
  for (const int m : {1, 2, 0}) EXPECT_TRUE(finish(m));
}

TEST_F(NcclTransportEnds, ReturnNothingWhenTheOtherEndDoesNotComeInTime) {
  send(0, 7);
  EXPECT_FALSE(finish(0, 0.02)) << "nothing is buffered, not even what NCCL would";
  post(0);
  EXPECT_TRUE(receive(0));
  EXPECT_TRUE(finish(0));
  post(1);
  EXPECT_FALSE(receive(1, 0));
  EXPECT_FALSE(receive(1, 0.02));
  send(1, 8);
  EXPECT_EQ(receive(1)->tensor.to_vector()[0], 8);
}

TEST_F(NcclTransportEnds, ATransferThatWasLeftOutTakesNoPlaceInItsChannel) {
  const size_t before = emulated_nccl().bytes_moved;
  const int64_t of_receiver = receiver()->live_bytes();
  send(0, Tensor());
  send(1, 4);
  post(0);
  post(1);
  EXPECT_TRUE(finish(1));
  EXPECT_EQ(receiver()->live_bytes() - of_receiver, 128) << "the room stays until it is received";
  EXPECT_FALSE(receive(0)->tensor.defined());
  EXPECT_EQ(receiver()->live_bytes() - of_receiver, 64);
  EXPECT_TRUE(finish(0));
  EXPECT_EQ(receive(1)->tensor.to_vector()[0], 4);
  EXPECT_EQ(emulated_nccl().bytes_moved - before, 32u);
  EXPECT_EQ(ranks_[1].transport->bytes_from_ranks(), 32);
}

TEST_F(NcclTransportEnds, ChargeTheSenderUntilItsSendEndsAndTheReceiverFromItsPostOn) {
  const int64_t of_sender = sender()->live_bytes(), of_receiver = receiver()->live_bytes();
  send(0, 1);
  EXPECT_EQ(sender()->live_bytes() - of_sender, 64);
  post(0);
  EXPECT_EQ(receiver()->live_bytes() - of_receiver, 64);
  auto arrived = receive(0);
  EXPECT_EQ(sender()->live_bytes() - of_sender, 64) << "received, but the sender has not seen it";
  EXPECT_TRUE(finish(0));
  EXPECT_EQ(sender()->live_bytes(), of_sender);
  arrived.reset();
  EXPECT_EQ(receiver()->live_bytes(), of_receiver);
}

TEST_F(NcclTransportEnds, RefuseRoomOfAnotherSizeAtBothEnds) {
  send(0, 1);
  post(0, 9);
  expect_error<CommError>([&] { receive(0); },
                          {"room for the 32 bytes of value 5 from 0 to 1, micro-batch 0", "receiver has 36", "rank 0"});
  expect_error<CommError>([&] { finish(0); }, {"room for the 32 bytes", "receiver has 36", "rank 1"});
}

TEST_F(NcclTransportEnds, EndsWhoseOrdersDifferNeverMeet) {
  send(0, 1);
  post(1);
  EXPECT_FALSE(receive(1, 0.02) || finish(0, 0.02));
}

TEST_F(NcclTransportEnds, RefuseWhatNoLinkCanCarry) {
  Transport& transport = *ranks_[0].transport;
  expect_error<UsageError>([&] { transport.send(kEnds, key(0), {full({8}, 1), {}, 0}); }, {"row-major tensors on GPUs", "got cpu:0"});
  expect_error<Error>(
      [&] {
        transport.post({1, 0}, key(0), {sender(), full({8}, 1, DType::f32, sender()), {}});
      },
      {"a link from device 1 to device 0", "connect the channels"});
  expect_error<UsageError>([&] { ranks_[1].transport->post(kEnds, key(0), {receiver(), Tensor(), {}}); }, {"looks at elements"});
  send(0, 1);
  expect_error<Error>([&] { send(0, 1); }, {"a second one of value 5", "micro-batch 0"});
  expect_error<Error>([&] { finish(3); }, {"a transfer that has begun", "micro-batch 3"});
}

TEST_F(NcclTransportEnds, WakeEveryWaiterWithTheReasonWhenOneCloses) {
  std::string reason;
  post(0);
  std::jthread waiting([&] {
    try {
      receive(0);
    } catch (const CommError& error) {
      reason = error.what();
    }
  });
  ranks_[1].transport->close("cuda:0 ran out of memory");
  waiting.join();
  EXPECT_EQ(reason, "cuda:0 ran out of memory");
  expect_error<CommError>([&] { post(1); }, {"cuda:0 ran out of memory"});
  EXPECT_EQ(ranks_[0].group->failure(), "rank 1: cuda:0 ran out of memory");
}

/// The receive is on the GPU and its send is not: nothing but the deadline ends the wait, and what is under way is given up.
TEST_F(NcclTransportEnds, GiveUpATransferThatHangsOnTheGpu) {
  emulated_nccl().failing_call = "ncclSend";
  const int made = emulated_nccl().live_communicators;
  send(0, 1);
  post(0);
  expect_error<CommError>([&] { finish(0); }, {"nccl: ncclSend(", "a failure that a test planted", "NCCL_DEBUG=INFO"});
  EXPECT_FALSE(receive(0, 0.05));
  const int64_t live = receiver()->live_bytes();
  for (Rank& rank : ranks_) rank.transport->close("a receive did not end in time");
  for (Rank& rank : ranks_) rank.transport.reset();
  EXPECT_EQ(receiver()->live_bytes(), live) << "the GPU may still write the room";
  for (Rank& rank : ranks_) rank.links.clear();
  EXPECT_EQ(emulated_nccl().live_communicators, made);
  emulation::reset();
}

TEST_F(NcclTransportEnds, TellWhatNcclMetInTheNetwork) {
  emulated_nccl().async_error = ncclRemoteError;
  post(0);
  expect_error<CommError>([&] { receive(0); }, {"an operation that was under way failed", "remote process exited"});
}

}  // namespace
}  // namespace sluice::parallel
