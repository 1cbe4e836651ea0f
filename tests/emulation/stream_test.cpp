#include "tests/emulation/stream.h"

#include "tests/emulation/device_array.h"

// Work runs as late as a program may rely on, so a missing wait shows every time.
namespace sluice::emulation {
namespace {

__global__ void add_to(int* y, const int* x) { *y += *x; }

__global__ void trap() { __trap(); }

/// x becomes 5 on one stream, and y += x on another; y begins as 1.
int sum_over_streams(bool with_wait) {
  const DeviceArray<int> x(std::vector<int>{0}), y(std::vector<int>{1}), five(std::vector<int>{5});
  const Stream producer, consumer;
  const Event ready;
  EXPECT_EQ(run({1, 1, 0, producer.handle}, add_to, x.data, five.data), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(ready.handle, producer.handle), cudaSuccess);
  if (with_wait) cudaStreamWaitEvent(consumer.handle, ready.handle);
  EXPECT_EQ(run({1, 1, 0, consumer.handle}, add_to, y.data, x.data), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(consumer.handle), cudaSuccess);
  return y.values()[0];
}

TEST(Streams, AMissingWaitGivesWrongDataEveryTime) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(sum_over_streams(true), 6);
    EXPECT_EQ(sum_over_streams(false), 1);
  }
}

TEST(Streams, AnEventMarksTheWorkBeforeItsRecordOnly) {
  const DeviceArray<int> x(std::vector<int>{0}), one(std::vector<int>{1});
  const Stream first, second;
  const Event event;
  EXPECT_EQ(cudaEventQuery(event.handle), cudaSuccess) << "an event that was never recorded has passed";
  run({1, 1, 0, first.handle}, add_to, x.data, one.data);
  cudaEventRecord(event.handle, first.handle);
  run({1, 1, 0, first.handle}, add_to, x.data, one.data);
  ASSERT_EQ(cudaEventSynchronize(event.handle), cudaSuccess);
  EXPECT_EQ(x.values()[0], 1);
  cudaStreamWaitEvent(second.handle, event.handle);
  EXPECT_EQ(cudaStreamSynchronize(second.handle), cudaSuccess);
  EXPECT_EQ(x.values()[0], 1);
  EXPECT_EQ(cudaStreamSynchronize(first.handle), cudaSuccess);
  EXPECT_EQ(x.values()[0], 2);
}

TEST(Streams, PollersOfWorkThatHasNotRunComeToAnEnd) {
  const DeviceArray<int> x(std::vector<int>{0}), one(std::vector<int>{1});
  const Stream stream;
  const Event before, after;
  cudaEventRecord(before.handle, stream.handle);
  run({1, 1, 0, stream.handle}, add_to, x.data, one.data);
  cudaEventRecord(after.handle, stream.handle);
  float milliseconds = -1;
  cudaGetLastError();
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before.handle, after.handle), cudaErrorNotReady);
  int queries = 1;
  while (cudaEventQuery(after.handle) == cudaErrorNotReady) ++queries;
  EXPECT_EQ(queries, 8);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "a query that is not ready is no error";
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before.handle, after.handle), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaStreamQuery(stream.handle), cudaSuccess);
}

TEST(Streams, PinnedMemoryIsReadWhenTheCopyRunsAndPageableMemoryAtOnce) {
  const DeviceArray<int> x(1), y(1);
  const Stream stream;
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int pageable = *pinned = 1;
  cudaMemcpyAsync(x.data, pinned, sizeof(int), cudaMemcpyHostToDevice, stream.handle);
  cudaMemcpyAsync(y.data, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream.handle);
  *pinned = pageable = 2;  // too early for the staging buffer
  ASSERT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(x.values()[0], 2);
  EXPECT_EQ(y.values()[0], 1);
  cudaMemcpyAsync(pinned, y.data, sizeof(int), cudaMemcpyDeviceToHost, stream.handle);
  EXPECT_EQ(*pinned, 2) << "pinned memory is written when the copy runs";
  cudaMemcpyAsync(&pageable, y.data, sizeof(int), cudaMemcpyDeviceToHost, stream.handle);
  EXPECT_EQ(*pinned, 1);
  EXPECT_EQ(pageable, 1) << "pageable memory is written before the call returns";
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Streams, ALongQueueRunsItsOldestWork) {
  const DeviceArray<int> x(std::vector<int>{0}), one(std::vector<int>{1});
  const Stream stream;
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(run({1, 1, 0, stream.handle}, add_to, x.data, one.data), cudaSuccess);
  EXPECT_EQ(x.values()[0], 5000 - 4096);
  ASSERT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(x.values()[0], 5000);
}

TEST(Streams, OfAnotherDeviceThanTheCurrentOneTakeNoLaunch) {
  const DeviceArray<int> x(std::vector<int>{0});
  const Stream stream;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(run({1, 1, 0, stream.handle}, add_to, x.data, x.data), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST(Streams, AFaultAppearsWhereTheWorkIsWaitedFor) {
  const Stream stream;
  EXPECT_EQ(run({1, 1, 0, stream.handle}, trap), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaErrorLaunchFailure);
  reset();
}

}  // namespace
}  // namespace sluice::emulation
