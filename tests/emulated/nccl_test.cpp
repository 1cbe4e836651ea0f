// The emulated NCCL (tests/emulation/nccl.h) by itself, and core/cuda/nccl.h over it.
#include "core/cuda/nccl.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/cuda/nccl_version.h"
#include "core/device.h"
#include "core/ops/copy.h"
#include "core/tensor.h"
#include "tests/emulated/nccl_job.h"
#include "tests/emulation/nccl.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

using emulation::emulated_nccl;
using emulation::ends;
using emulation::NcclRank;
using emulation::sent_bytes;

class NcclTest : public ::testing::Test {
 protected:
  ~NcclTest() override { emulation::forget_nccl(); }
};

TEST_F(NcclTest, MovesBytesOfAnySizeInOrderThroughASmallFifo) {
  emulated_nccl().fifo_bytes = 64;
  const std::vector<size_t> sizes = {1, 63, 64, 65, 1000, 7};
  EXPECT_TRUE(ends(2, [&](NcclRank& rank) {
    const ncclComm_t both = rank.join("both", {0, 1});
    for (const size_t bytes : sizes) rank.rank() == 0 ? rank.send(both, 1, bytes) : rank.receive(both, 0, bytes);
    rank.finish();
    for (int i = 0; rank.rank() == 1 && i < static_cast<int>(sizes.size()); ++i) EXPECT_EQ(rank.received(i), sent_bytes(0, i, sizes[i]));
  }));
}

TEST_F(NcclTest, OperationsOfAGroupRunTogether) {
  emulated_nccl().fifo_bytes = 64;
  EXPECT_TRUE(ends(4, [&](NcclRank& rank) {
    const ncclComm_t all = rank.join("all", {0, 1, 2, 3});
    ncclGroupStart();
    for (int peer = 0; peer < 4; ++peer) rank.send(all, peer, 500);
    for (int peer = 3; peer >= 0; --peer) rank.receive(all, peer, 500);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    rank.finish();
    for (int peer = 0; peer < 4; ++peer) EXPECT_EQ(rank.received(3 - peer), sent_bytes(peer, rank.rank(), 500));
  }));
}

TEST_F(NcclTest, SendsToItselfOnlyInAGroup) {
  EXPECT_TRUE(ends(1, [&](NcclRank& rank) {
    const ncclComm_t self = rank.join("self", {0});
    EXPECT_EQ(rank.send(self, 0, 10), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(self)).find("send to self without a matching recv"), std::string::npos);
  }));
}

TEST_F(NcclTest, RefusesTwoRanksOnOneGpu) {
  EXPECT_TRUE(ends(2, [&](NcclRank& rank) {
    cudaSetDevice(0);
    EXPECT_EQ(rank.join("both", {0, 1}), nullptr);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected"), std::string::npos);
  }));
}

TEST_F(NcclTest, WhatIsMissingOrTooOldIsNamedWithTheCure) {
  emulation::install_nccl(0);
  EXPECT_EQ(nccl::unavailable_reason(), "the emulated machine has no NCCL; install one");
  EXPECT_EQ(nccl::library_version(), "");
  expect_error<UsageError>([] { nccl::new_unique_id(); }, {"nccl:", "has no NCCL"});
  emulation::install_nccl(22705);
  expect_error<UsageError>([] { nccl::new_unique_id(); }, {"is 2.27.5", "needs 2.28.9 or newer", "install", "LD_LIBRARY_PATH"});
  emulation::install_nccl(22809);
  EXPECT_EQ(nccl::unavailable_reason(), "");
  EXPECT_EQ(nccl::library_version(), "2.28.9");
}

TEST_F(NcclTest, VersionsAreReadAndJudged) {
  EXPECT_EQ(nccl::version_text(22809), "2.28.9");
  EXPECT_EQ(nccl::version_text(23003), "2.30.3");
  EXPECT_NE(nccl::version_fault(2708).find("is 2.7.8,"), std::string::npos);
  EXPECT_EQ(nccl::version_fault(22903), "");
  EXPECT_EQ(nccl::version_fault(22902), "");
  EXPECT_NE(nccl::version_warning(22902).find("2.29.2 can hang, which 2.29.3 fixes"), std::string::npos);
  EXPECT_EQ(nccl::version_warning(22903), "");
  EXPECT_EQ(nccl::version_warning(22809), "");
}

/// A communicator with itself on one GPU.
class NcclSelf : public NcclTest {
 protected:
  static nccl::Communicator self() { return {0, nccl::new_unique_id(), 1, 0}; }
  const DevicePtr device_ = make_device("cuda:0");
};

TEST_F(NcclSelf, SendsAfterTheEventsHavePassedAndTellsItsEnd) {
  nccl::Communicator communicator = self();
  const Tensor from = tensor_of({1, 2, 3}, {3}, DType::f32, device_), to = zeros({3}, DType::f32, device_);
  device_->wait_for(communicator.send_to_self(from.data(), to.data(), 12, device_->record(), device_->record()));
  EXPECT_EQ(to.to_vector(), (std::vector<double>{1, 2, 3}));
}

TEST_F(NcclSelf, BoundsItsCtasAndBlocks) {
  nccl::Communicator communicator = self();
  ASSERT_EQ(emulated_nccl().configs.size(), 1u);
  EXPECT_EQ(emulated_nccl().configs[0].maxCTAs, nccl::Communicator::kMostCtas);
  EXPECT_EQ(emulated_nccl().configs[0].blocking, 1);
}

TEST_F(NcclSelf, ErrorsNameTheCallWhatNcclSaysAndTheCure) {
  nccl::Communicator communicator = self();
  const Tensor x = zeros({3}, DType::f32, device_);
  emulated_nccl().failing_call = "ncclSend";
  expect_error<CommError>(
      [&] { communicator.send(x.data(), 12, 0, {}); },
      {"nccl: ncclSend(", "unhandled system error", "a failure that a test planted", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG=INFO"});
  expect_error<CommError>([&] { communicator.send_to_self(x.data(), x.data(), 12, {}, {}); }, {"ncclSend to this rank itself"});
  emulated_nccl().failing_call = "";
  emulated_nccl().async_error = ncclRemoteError;
  expect_error<CommError>([&] { communicator.check(); }, {"under way failed", "remote process exited", "another rank failed"});
  emulated_nccl().async_error = ncclSuccess;
  communicator.check();
  emulated_nccl().failing_call = "ncclCommInitRankConfig";
  emulated_nccl().failure = ncclInvalidUsage;
  expect_error<CommError>([&] { self(); }, {"nccl: ncclCommInitRankConfig failed: invalid usage", "GPUs of its own"});
  emulated_nccl().failing_call = "ncclGetUniqueId";
  expect_error<CommError>([&] { nccl::new_unique_id(); }, {"nccl: ncclGetUniqueId("});
  emulated_nccl().failing_call = "";
  expect_error<CommError>([&] { nccl::Communicator(0, "short", 1, 0); }, {"128 bytes, got 5", "one build"});
}

TEST_F(NcclSelf, FreesItsCommunicatorUnlessItIsAbandoned) {
  { const auto communicator = self(); }
  EXPECT_EQ(emulated_nccl().live_communicators, 0);
  {
    auto communicator = self();
    communicator.abandon();
  }
  EXPECT_EQ(emulated_nccl().live_communicators, 1);
}

}  // namespace
}  // namespace sluice
