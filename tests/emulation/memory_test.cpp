#include <cmath>
#include <thread>

#include "tests/emulation/device_array.h"

// Accesses out of bounds end the launch with a text that names them.
namespace sluice::emulation {
namespace {

// These go wrong on purpose, and UndefinedBehaviorSanitizer need not say so.
#define PLANTED __attribute__((no_sanitize("undefined")))

PLANTED __global__ void read_at(const float* x, long index, float* y) { *y = x[index]; }
PLANTED __global__ void write_at(float* x, long index) {
  if (threadIdx.x == 5) x[index] = 1;
}

TEST(DeviceMemory, AnAccessOutOfBoundsIsAFaultThatNamesIt) {
  const DeviceArray<float> x(100), y(4);
  EXPECT_EQ(fault_of({1, 1}, read_at, x.data, 99, y.data), "");
  EXPECT_TRUE(
      holds(fault_of({1, 1}, read_at, x.data, 102, y.data), "reads 8 bytes past the end of an allocation of 400 bytes on device 0"));
  const std::string write = fault_of({dim3(2), 32}, write_at, x.data, 100);
  EXPECT_TRUE(holds(write, ",0,0), thread (5,0,0): writes 0 bytes past the end of an allocation of 400 bytes on device 0"));
  EXPECT_TRUE(holds(write, "kernel launch #"));
  EXPECT_TRUE(holds(fault_of({1, 32}, write_at, x.data, -2000), "bytes before an allocation of 400 bytes"));
  EXPECT_TRUE(holds(fault_of({1, 1}, read_at, nullptr, 0, y.data), "a null pointer"));
}

TEST(DeviceMemory, AWriteBetweenTheEndAndTheGuardIsFoundAfterTheLaunch) {
  const DeviceArray<float> x(99);
  EXPECT_TRUE(holds(fault_of({1, 32}, write_at, x.data, 99), "less than 16 bytes past the end of an allocation of 396 bytes"));
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST(DeviceMemory, FreedMemoryIsOutOfReach) {
  float* freed = nullptr;
  ASSERT_EQ(cudaMalloc(&freed, 256), cudaSuccess);
  ASSERT_EQ(cudaFree(freed), cudaSuccess);
  EXPECT_TRUE(holds(fault_of({1, 32}, write_at, freed, 3), "near byte 12 of an allocation of 256 bytes on device 0 that was freed"));
  EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
}

TEST(DeviceMemory, FaultsAreCaughtOnEveryThread) {
  const DeviceArray<float> x(4);
  std::string text;
  std::thread([&] { text = fault_of({1, 32}, write_at, x.data, 4); }).join();
  EXPECT_TRUE(holds(text, "writes 0 bytes past the end"));
}

__global__ void fill_shared(int count) {
  auto* memory = static_cast<int*>(dynamic_shared_memory());
  for (int i = 0; i < count; ++i) memory[i] = i;
}
__global__ void overflow_stack(int depth, volatile char* out) {
  volatile char frame[4096];
  frame[depth % 4096] = static_cast<char>(depth);
  if (depth > 0) overflow_stack(depth - 1, frame);
  *out = frame[0];
}
PLANTED __global__ void divide(int x, int by, int* y) { *y = x / by; }

TEST(DeviceMemory, SharedMemoryStackAndDivisionAreWatchedToo) {
  const DeviceArray<int> y(4);
  EXPECT_EQ(fault_of({2, 3, 64}, fill_shared, 16), "");
  EXPECT_TRUE(holds(fault_of({1, 1, 64}, fill_shared, 17), "writes 0 bytes past the end of the block's 64 bytes of dynamic shared memory"));
  EXPECT_TRUE(holds(fault_of({1, 1}, divide, 1, 0, y.data), "divides an integer by zero"));
  EXPECT_TRUE(holds(fault_of({1, 1}, overflow_stack, 1000, reinterpret_cast<char*>(y.data)), "its stack overflows"));
}

__global__ void is_nan_in_shared(int* out) { *out = std::isnan(*static_cast<float*>(dynamic_shared_memory())); }

TEST(DeviceMemory, NewMemoryIsNaN) {
  const DeviceArray<float> x(5);
  for (const float value : x.values()) EXPECT_TRUE(std::isnan(value));
  const DeviceArray<int> out(1);
  ASSERT_EQ(run({1, 1, 16}, is_nan_in_shared, out.data), cudaSuccess);
  EXPECT_EQ(out.values(), std::vector<int>{1});
}

TEST(DeviceMemory, CopiesAreCheckedAgainstTheirAllocations) {
  const DeviceArray<float> x(4), y(std::vector<float>{1, 2, 3, 4});
  float host[8] = {};
  EXPECT_EQ(cudaMemcpy(x.data, host, 20, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_TRUE(holds(cudaGetErrorString(cudaErrorInvalidValue), "the destination ends 4 bytes past the end of an allocation of 16 bytes"));
  EXPECT_EQ(cudaMemcpy(host, x.data, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data, y.data, 16, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(x.values(), y.values());
  EXPECT_EQ(cudaMemset(x.data, 0, 17), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2DAsync(x.data, 8, y.data, 4, 4, 2, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(x.values(), (std::vector<float>{1, 2, 2, 4}));
  EXPECT_EQ(cudaMemset2DAsync(x.data, 8, 0, 4, 2), cudaSuccess);
  EXPECT_EQ(x.values(), (std::vector<float>{0, 2, 0, 4}));
  EXPECT_EQ(cudaMemset2DAsync(x.data, 4, 0, 8, 2), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset2DAsync(x.data, 16, 0, 4, 2), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(DeviceMemory, TwoDevicesCountTheirOwnBytes) {
  size_t free_before = 0, free_after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  const DeviceArray<float> here(std::vector<float>{7, 8});
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_before - free_after, 8u);
  reset_peak_bytes(0);
  const size_t before = allocated_bytes(0), before_there = allocated_bytes(1);
  {
    const DeviceArray<float> more(3);
    EXPECT_EQ(allocated_bytes(0), before + 12);
  }
  EXPECT_EQ(allocated_bytes(0), before);
  EXPECT_EQ(peak_bytes(0), before + 12);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const DeviceArray<float> there(2);
  EXPECT_EQ(allocated_bytes(1), before_there + 8);
  EXPECT_EQ(cudaMemcpyPeerAsync(there.data, 0, here.data, 0, 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeerAsync(there.data, 1, here.data, 0, 8), cudaSuccess);
  EXPECT_EQ(there.values(), here.values());
  EXPECT_EQ(cudaSetDevice(4), cudaErrorInvalidDevice);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, total), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(DeviceMemory, OfAnotherDeviceCanBeOutOfReach) {
  set_peer_access(false);
  int can_access = 1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can_access, 0, 1), cudaSuccess);
  EXPECT_EQ(can_access, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorPeerAccessUnsupported);
  set_peer_access(true);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
}

}  // namespace
}  // namespace sluice::emulation
