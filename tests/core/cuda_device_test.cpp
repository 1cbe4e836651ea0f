// Devices of a GPU: order of work between them, memory that another one still reads, faults of kernels, budgets. The emulation runs work
// as late as a program may rely on, so that there a missing wait shows every time; on a GPU, if the other device is slow enough.
#include <chrono>
#include <cmath>
#include <future>

#include "core/arena.h"
#include "core/graph_scope.h"
#include "core/ops/copy.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "tests/core/cuda_fixture.h"
#include "tests/expect_error.h"

namespace sluice {
namespace {

constexpr int64_t kElements = 1 << 12;
std::vector<double> all(double value) { return std::vector<double>(kElements, value); }
Tensor filled(double value, const DevicePtr& device) { return full({kElements}, value, DType::f32, device); }

using CudaHandOver = CudaTest;

TEST_F(CudaHandOver, TheOtherDeviceReadsWhatWasEnqueuedBefore) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  const Tensor x = filled(1, first), there = x.to(second);
  EXPECT_EQ(there.data<float>(), x.data<float>()) << "devices of one GPU share memory";
  EXPECT_EQ(there.clone().to_vector(), all(1)) << "without the wait: what the memory held before the fill";
}

TEST_F(CudaHandOver, MemoryServesAgainOnlyAfterTheOtherDeviceHasReadIt) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  Tensor read;
  {
    const Tensor x = filled(1, first);
    read = x.to(second).clone();
  }
  // Were the block given back without the second device's event, it would be this one, and the clone, not run yet, would read twos.
  const Tensor again = filled(2, first);
  first->synchronize();
  EXPECT_EQ(read.to_vector(), all(1));
}

TEST_F(CudaHandOver, ACopyReadsWhatWasEnqueuedBefore) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  const Tensor x = filled(1, first), y = filled(0, second);
  copy(x, y);
  EXPECT_EQ(y.to_vector(), all(1)) << "without the wait: what the memory held before the fill";
}

TEST_F(CudaHandOver, ACopyIsTakenBeforeItsSourceChanges) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  const Tensor x = filled(1, first), y = filled(0, second);
  copy(x, y);
  fill(x, 2);  // has to wait for the second device, which runs the copy
  first->synchronize();
  EXPECT_EQ(y.to_vector(), all(1));
}

TEST_F(CudaHandOver, MemorySentToAnotherGpuServesAgainOnlyAfterTheCopy) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto first = make_device("cuda:0"), second = make_device("cuda:1");
  const Tensor there = filled(1, first).to(second);
  const Tensor again = filled(2, first);
  first->synchronize();
  EXPECT_EQ(there.to_vector(), all(1));
}

// The copy that makes a strided tensor row-major runs on the sender's stream, after the event that the receiver waited for.
TEST_F(CudaHandOver, ACopyOfAStridedTensorToAnotherGpuReadsWhatWasEnqueuedBefore) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto first = make_device("cuda:0"), second = make_device("cuda:1");
  const Tensor x = full({64, 64}, 1, DType::f32, first), there = x.slice(1, 0, 60).to(second);
  EXPECT_EQ(there.to_vector(), std::vector<double>(64 * 60, 1)) << "without the wait: what the memory held before the copy";
}

TEST_F(CudaHandOver, ATransferToAnotherGpuReadsWhatIsReadyAndWritesWhatIsFree) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto first = make_device("cuda:0"), second = make_device("cuda:1");
  const Tensor x = filled(1, first), before = filled(5, second);
  const Tensor read = before.clone();  // of the memory that becomes room, so that the room is not free before
  const Tensor room = room_for(x.shape(), x.dtype(), second, *first);
  const auto [there, arrived] = x.handed_to(room, first->record(), second->record());
  second->wait_for(arrived);
  EXPECT_EQ(there.clone().to_vector(), all(1));
  EXPECT_EQ(read.to_vector(), all(5));
}

TEST_F(CudaHandOver, WhatWasSentServesAgainInTheOrderOfTheSendersWorkBehindTheEndOfTheTransfer) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto first = make_device("cuda:0"), second = make_device("cuda:1");
  Tensor x = filled(1, first);
  const void* block = x.data();
  const auto [there, arrived] = x.handed_to(room_for(x.shape(), x.dtype(), second, *first), first->record(), second->record());
  first->wait_for(arrived);
  x = {};
  const Tensor again = filled(2, first);
  EXPECT_EQ(again.data(), block) << "at once, so that the GPU is asked for no second one";
  first->synchronize();
  second->wait_for(arrived);
  EXPECT_EQ(there.to_vector(), all(1));
}

TEST_F(CudaHandOver, ATensorIsCountedOnBothDevices) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  EXPECT_EQ(first->live_bytes(), Cuda::kOwnBytes);
  const Tensor x = filled(1, first), there = x.slice(0, 0, 16).charged_to(second);
  EXPECT_EQ(first->live_bytes(), Cuda::kOwnBytes + 4 * kElements);
  EXPECT_EQ(second->live_bytes(), Cuda::kOwnBytes + 64);
}

using CudaArena = CudaTest;

TEST_F(CudaArena, KeepsABlockBackUntilTheMomentsHavePassed) {
  const auto owner = make_device("cuda:0"), reader = make_device("cuda:0");
  const Tensor x = filled(1, reader);
  for (int i = 0; i < 100; ++i) fill(x, i);
  const Event reading = reader->record();
  const auto block = owner->arena().take(1024);
  owner->arena().give_back(block, {reading, nullptr});
  const auto other = owner->arena().take(1024);
  if (!has_passed(reading)) {
    EXPECT_NE(other.data, block.data);
  }
  wait_until(reading);
  const auto again = owner->arena().take(1024);
  EXPECT_TRUE(again.data == block.data || other.data == block.data) << "a block that is free serves again";
  owner->arena().give_back(other);
  owner->arena().give_back(again);
}

TEST_F(CudaArena, TrimWaitsForTheMomentsAndFreesAllBlocks) {
  const auto owner = make_device("cuda:0"), reader = make_device("cuda:0");
  const Tensor x = filled(1, reader);
  fill(x, 2);
  const Event reading = reader->record();
  owner->arena().give_back(owner->arena().take(1024), {reading});
  owner->arena().give_back(owner->arena().take(4096));
  owner->arena().trim();
  EXPECT_TRUE(has_passed(reading));
  EXPECT_EQ(owner->arena().kept_bytes(), 0u);
}

using CudaMemory = CudaTest;

constexpr int64_t kBytes = 4 * kElements;
DevicePtr gpu_with(int64_t bytes) { return make_device("cuda:0", {.budget_bytes = Cuda::kOwnBytes + bytes}); }

TEST_F(CudaMemory, OfKeptBlocksGoesBackBeforeTheBudgetIsPassed) {
  const auto gpu = gpu_with(2 * kBytes);
  filled(1, gpu);
  EXPECT_EQ(gpu->arena().kept_bytes(), kBytes);
  const Tensor large = full({2 * kElements}, 2, DType::f32, gpu);
  EXPECT_EQ(gpu->arena().kept_bytes(), 0u);
  EXPECT_EQ(large.to_vector(), std::vector<double>(2 * kElements, 2));
}

TEST_F(CudaMemory, IsTakenExactlyWhereThereIsABudget) {
  const auto gpu = gpu_with(3 * kBytes);
  empty({kElements + kElements / 8}, DType::f32, gpu);
  const Tensor x = filled(1, gpu), y = filled(2, gpu);  // had x the larger block, there would be none for z
  const Tensor z = filled(3, gpu);
  EXPECT_EQ(x.to_vector(), all(1));
  EXPECT_EQ(z.to_vector(), all(3));
}

/// Two devices of one GPU that are full: all memory is the first one's, half of it kept, and half of it is the second one's to take.
struct FullGpu {
  FullGpu() {
    const Tensor there = filled(1, first).charged_to(second);  // which the second one keeps alive
    held = filled(2, first);
  }
  DevicePtr first = gpu_with(kBytes), second = gpu_with(kBytes);
  Tensor held;
};

TEST_F(CudaMemory, ThatOneDeviceKeepsServesAnotherOneOfTheSameGpu) {
  const FullGpu gpu;
  EXPECT_EQ(filled(3, gpu.second).to_vector(), all(3));
  EXPECT_EQ(gpu.held.to_vector(), all(2));
}

TEST_F(CudaMemory, ThatACaptureStillUsesIsWaitedFor) {
  const FullGpu gpu;
  GraphScope graph(*gpu.first, true, 0);
  fill(gpu.held, 4);
  gpu.first->arena().trim();
  auto other = std::async(std::launch::async, [&] { return filled(3, gpu.second).to_vector(); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  graph.launch();
  EXPECT_EQ(other.get(), all(3));
  EXPECT_EQ(gpu.held.to_vector(), all(4));
}

TEST_F(CudaMemory, ThatADeviceHeldIsAnothersWhenItIsGone) {
  const auto second = gpu_with(kBytes);
  for (int i = 0; i < 3; ++i) filled(i, gpu_with(kBytes));
  EXPECT_EQ(filled(1, second).to_vector(), all(1));
}

using CudaFaults = CudaTest;

TEST_F(CudaFaults, ABadIdIsReportedOnceAndTheDeviceWorksOn) {
  const auto gpu = make_device("cuda:0");
  const Tensor table = tensor_of({1, 2, 3, 4, 5, 6}, {3, 2}, DType::f32, gpu);
  const Tensor y = embedding(tensor_of({2, 7, -1}, {3}, DType::i32, gpu), table);
  expect_error<UsageError>([&] { gpu->synchronize(); }, {"embedding", "[0, 3)", "got 7 at position 1", "cuda:0"});
  EXPECT_NO_THROW(gpu->synchronize());
  const auto rows = y.to_vector();
  EXPECT_EQ(rows[0], 5);
  for (int i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(rows[i])) << "of a bad id";
  EXPECT_EQ(embedding(tensor_of({0}, {1}, DType::i32, gpu), table).to_vector(), (std::vector<double>{1, 2}));
}

TEST_F(CudaFaults, ABadTargetIsReportedOnceAndTheDeviceWorksOn) {
  const auto gpu = make_device("cuda:0");
  const Tensor logits = zeros({3, 4}, DType::f32, gpu);
  const Tensor loss = cross_entropy(logits, tensor_of({0, -100, 9}, {3}, DType::i32, gpu)).loss;
  expect_error<UsageError>([&] { gpu->synchronize(); }, {"cross_entropy", "[0, 4)", "got 9 at row 2", "cuda:0"});
  EXPECT_TRUE(std::isnan(loss.item()));
  EXPECT_NEAR(cross_entropy(logits, tensor_of({0, -100, 1}, {3}, DType::i32, gpu)).loss.item(), 2 * std::log(4), 1e-5);
}

TEST_F(CudaFaults, BelongToTheDeviceThatRanTheKernel) {
  const auto first = make_device("cuda:0"), second = make_device("cuda:0");
  embedding(tensor_of({5}, {1}, DType::i32, first), zeros({3, 2}, DType::f32, first));
  EXPECT_NO_THROW(second->synchronize());
  EXPECT_THROW(first->synchronize(), UsageError);
}

TEST_F(CudaTest, NamesDeviceBytesAndBudgetWhenMemoryRunsOut) {
  const auto gpu = make_device("cuda:0", {.budget_bytes = Cuda::kOwnBytes + 1000});
  const Tensor kept = empty({100}, DType::f32, gpu);
  expect_error<OutOfMemory>([&] { empty({200}, DType::f32, gpu); }, {"cuda:0", "832 bytes", join("budget of ", Cuda::kOwnBytes + 1000)});
  EXPECT_EQ(gpu->live_bytes(), Cuda::kOwnBytes + 448) << "a refused tensor is not counted";
  EXPECT_EQ(full({100}, 3, DType::f32, gpu).to_vector(), std::vector<double>(100, 3));
}

}  // namespace
}  // namespace sluice
