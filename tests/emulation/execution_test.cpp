#include <numeric>
#include <set>

#include "tests/emulation/device_array.h"

// Threads, barriers and warp functions: right kernels are right in every order, wrong ones are found.
namespace sluice::emulation {
namespace {

constexpr unsigned kAll = 0xffffffffu;

__global__ void sum_of_block(const float* x, int count, float* sums) {
  __shared__ float of_warp[32];
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += x[blockIdx.x * count + i];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.f;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(kAll, sum, distance);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

TEST(Execution, BlockSumsEqualLoopsForEverySeed) {
  constexpr int kBlocks = 7, kCount = 300;
  std::vector<float> x(kBlocks * kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
  const DeviceArray<float> input(x);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    set_seed(seed);
    const DeviceArray<float> sums(kBlocks);
    ASSERT_EQ(run({kBlocks, 128}, sum_of_block, input.data, kCount, sums.data), cudaSuccess);
    const auto found = sums.values();
    for (int block = 0; block < kBlocks; ++block)
      ASSERT_EQ(found[block], std::accumulate(&x[block * kCount], &x[block * kCount] + kCount, 0.f)) << "seed " << seed;
  }
}

template <bool with_barrier>
__global__ void take_from_neighbour(int base, int* y) {
  __shared__ int values[64];
  values[threadIdx.x] = base + static_cast<int>(threadIdx.x);
  if (with_barrier) __syncthreads();
  y[threadIdx.x] = values[(threadIdx.x + 1) % 64];
}

/// Seeds of 20 for which the exchange is right.
template <bool with_barrier>
int right_seeds() {
  int right = 0;
  for (int seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    const DeviceArray<int> y(64);
    EXPECT_EQ(run({1, 64}, take_from_neighbour<with_barrier>, 1000 * seed, y.data), cudaSuccess);
    const auto found = y.values();
    bool same = true;
    for (int i = 0; i < 64; ++i) same = same && found[i] == 1000 * seed + (i + 1) % 64;
    right += same;
  }
  return right;
}

TEST(Execution, AMissingBarrierGivesAWrongResult) {
  EXPECT_EQ(right_seeds<true>(), 20);
  EXPECT_LT(right_seeds<false>(), 20);
}

__global__ void record_order(int* next, int* order) { order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

std::vector<int> order_for(uint64_t seed) {
  set_seed(seed);
  const DeviceArray<int> next(std::vector<int>{0}), order(64);
  EXPECT_EQ(run({4, 16}, record_order, next.data, order.data), cudaSuccess);
  return order.values();
}

TEST(Execution, BlocksAndThreadsRunInAnOrderThatTheSeedChanges) {
  const auto first = order_for(1), second = order_for(2);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 64u);
}

__global__ void indices(int* out) {
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + block;
}

TEST(Execution, EveryThreadOfAThreeDimensionalGridRunsOnce) {
  const DeviceArray<int> out(std::vector<int>(2 * 3 * 4 * 5 * 3 * 2, 0));
  ASSERT_EQ(run({dim3(2, 3, 4), dim3(5, 3, 2)}, indices, out.data), cudaSuccess);
  const auto found = out.values();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], 1 + static_cast<int>(i / 30));
}

__global__ void shuffles(int* out) {
  const int lane = threadIdx.x;
  int* row = out + lane * 5;
  row[0] = __shfl_sync(kAll, 10 * lane, 3, 8);
  row[1] = __shfl_up_sync(kAll, lane, 2, 16);
  row[2] = __shfl_down_sync(kAll, lane, 3);
  row[3] = static_cast<int>(__shfl_xor_sync(kAll, static_cast<double>(lane) + 0.5, 5) * 2);
  row[4] = static_cast<int>(__shfl_xor_sync(kAll, 1ll << lane, 1) >> 8);
}

TEST(Execution, ShufflesReadTheLaneThatTheGuideSays) {
  const DeviceArray<int> out(32 * 5);
  ASSERT_EQ(run({1, 32}, shuffles, out.data), cudaSuccess);
  const auto found = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(found[lane * 5], 10 * (lane / 8 * 8 + 3));
    EXPECT_EQ(found[lane * 5 + 1], lane % 16 >= 2 ? lane - 2 : lane);
    EXPECT_EQ(found[lane * 5 + 2], lane < 29 ? lane + 3 : lane);
    EXPECT_EQ(found[lane * 5 + 3], (lane ^ 5) * 2 + 1);
    EXPECT_EQ(found[lane * 5 + 4], static_cast<int>((1ll << (lane ^ 1)) >> 8));
  }
}

__global__ void divergent(int* out) {
  const int lane = threadIdx.x;
  int sum = lane;
  if (lane < 8) {
    for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(0x000000ffu, sum, distance);
  } else if (lane % 2 == 1) {
    sum = __ballot_sync(0xaaaaaa00u, lane > 20);
  } else {
    sum = __reduce_max_sync(0x55555500u, -lane);
  }
  __syncwarp();
  out[lane] = sum;
}

TEST(Execution, DivergentLanesMeetByTheirMasks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    const DeviceArray<int> out(32);
    ASSERT_EQ(run({1, 32}, divergent, out.data), cudaSuccess);
    const auto found = out.values();
    for (int lane = 0; lane < 32; ++lane) {
      const int expected = lane < 8 ? 28 : lane % 2 == 1 ? static_cast<int>(0xaaa00000u) : -8;
      ASSERT_EQ(found[lane], expected) << "lane " << lane;
    }
  }
}

__global__ void votes(int* out) {
  const bool odd = threadIdx.x % 2;
  int* row = out + threadIdx.x * 5;
  row[0] = __syncthreads_count(odd);
  row[1] = __syncthreads_or(threadIdx.x == 40);
  row[2] = __syncthreads_and(threadIdx.x != 40);
  row[3] = __any_sync(kAll, threadIdx.x == 40);
  row[4] = __all_sync(kAll, threadIdx.x != 40);
}

TEST(Execution, VotesCountTheBlockOrTheWarp) {
  const DeviceArray<int> out(64 * 5);
  ASSERT_EQ(run({1, 64}, votes, out.data), cudaSuccess);
  const auto found = out.values();
  for (int thread = 0; thread < 64; ++thread) {
    const bool second_warp = thread >= 32;
    EXPECT_EQ(std::vector<int>(&found[thread * 5], &found[thread * 5] + 5), (std::vector<int>{32, 1, 0, second_warp, !second_warp}));
  }
}

__global__ void sum_of_half_a_warp(float* out) {
  float sum = threadIdx.x;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0x0000ffffu, sum, distance);
  out[threadIdx.x] = sum;
}
__global__ void mask_without_caller(float* out) { out[threadIdx.x] = __shfl_sync(0x7fffffffu, 1.f, 0); }
__global__ void two_masks(int* out) { out[threadIdx.x] = __any_sync(threadIdx.x < 16 ? kAll : 0xffff0000u, 1); }
__global__ void two_types(float* out) {
  if (threadIdx.x % 2)
    out[threadIdx.x] = __shfl_xor_sync(kAll, 1, 2);
  else
    out[threadIdx.x] = __shfl_xor_sync(kAll, 1.f, 2);
}
__global__ void exits_early(float* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __shfl_sync(kAll, 1.f, 0);
}

TEST(Execution, WrongMasksOfShufflesAreFaults) {
  const DeviceArray<float> out(32);
  const DeviceArray<int> integers(32);
  EXPECT_TRUE(holds(fault_of({1, 32}, sum_of_half_a_warp, out.data), "mask 0x0000ffff"));
  EXPECT_TRUE(holds(fault_of({1, 32}, mask_without_caller, out.data), "thread (31,0,0): __shfl_sync: mask 0x7fffffff does not name"));
  EXPECT_TRUE(holds(fault_of({1, 32}, two_masks, integers.data), "with mask 0xffff"));
  EXPECT_TRUE(holds(fault_of({1, 32}, two_types, out.data), "same call"));
  EXPECT_TRUE(holds(fault_of({1, 32}, exits_early, out.data), "exit"));
  EXPECT_TRUE(holds(fault_of({1, 16}, sum_of_block, out.data, 1, out.data), "not in the block"));
}

__global__ void barrier_of_some() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void barrier_against_shuffle(int* out) {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    out[threadIdx.x] = __any_sync(kAll, 1);
}
__global__ void two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads_count(1);
}

TEST(Execution, ThreadsThatWaitForeverAreNamed) {
  const DeviceArray<int> out(64);
  const std::string some = fault_of({1, 64}, barrier_of_some);
  EXPECT_TRUE(holds(some, "thread (40,0,0) and 23 more: exited"));
  EXPECT_TRUE(holds(some, "thread (0,0,0) and 39 more: waits at __syncthreads"));
  const std::string mixed = fault_of({1, 32}, barrier_against_shuffle, out.data);
  EXPECT_TRUE(holds(mixed, "thread (3,0,0): waits at __syncthreads;"));
  EXPECT_TRUE(holds(mixed, "thread (0,0,0) and 30 more: waits at __any_sync with mask 0xffffffff"));
  EXPECT_TRUE(holds(fault_of({1, 64}, two_barriers), "all must call the same"));
}

__global__ void throws_nothing_after(int* out) {
  if (threadIdx.x == 0) __trap();
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST(Execution, AFaultStaysUntilReset) {
  const DeviceArray<int> out(std::vector<int>(32, 0));
  EXPECT_EQ(run({1, 32}, throws_nothing_after, out.data), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_TRUE(holds(cudaGetErrorString(cudaErrorLaunchFailure), "thread (0,0,0): __trap() was called"));
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorLaunchFailure");
  reset();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(out.values(), std::vector<int>(32, 0));
}

__global__ void nothing() {}
__global__ void asks_for_more(int) {}

TEST(Execution, LaunchesBeyondTheLimitsAreRefused) {
  EXPECT_EQ(run({1, 1025}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_TRUE(holds(cudaGetErrorString(cudaErrorInvalidConfiguration), "got 1025 x 1 x 1"));
  EXPECT_EQ(run({dim3(1, 65536), 1}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run({1, 0}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run({1, dim3(1, 1, 65)}, nothing), cudaErrorInvalidConfiguration);
  EXPECT_EQ(run({1, 32, 39 << 10}, nothing), cudaSuccess);
  EXPECT_EQ(run({1, 32, (39 << 10) + 1}, nothing), cudaErrorInvalidValue);  // 9 KiB of 48 may be static
  EXPECT_EQ(cudaFuncSetAttribute(asks_for_more, cudaFuncAttributeMaxDynamicSharedMemorySize, (227 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(asks_for_more, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10), cudaSuccess);
  EXPECT_EQ(run({1, 32, 227 << 10}, asks_for_more, 0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(run({1, 32, 227 << 10}, asks_for_more, 0), cudaErrorInvalidValue) << "allowed on another device alone";
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

/// Each thread copies an element through shared memory, and waits or not.
__global__ void copy_beside(const float* x, float* y, bool commits, bool waits) {
  __shared__ float place[32];
  copy_async(place + threadIdx.x, x + threadIdx.x, sizeof(float), threadIdx.x < 30);
  if (commits) commit_copies();
  if (waits) wait_for_copies();
  y[threadIdx.x] = place[threadIdx.x];
}

TEST(Execution, ACopyToSharedMemoryHasComeWhenItsThreadHasWaitedForIt) {
  const DeviceArray<float> x(std::vector<float>(30, 7.f)), y(32);
  std::vector<float> expected(32, 7.f);
  expected[30] = expected[31] = 0;
  ASSERT_EQ(run({1, 32}, copy_beside, x.data, y.data, true, true), cudaSuccess);
  EXPECT_EQ(y.values(), expected);
  for (const auto& [commits, waits] : {std::pair(true, false), std::pair(false, true)}) {
    ASSERT_EQ(run({1, 32}, copy_beside, x.data, y.data, commits, waits), cudaSuccess);
    for (const float value : y.values()) EXPECT_TRUE(std::isnan(value));
  }
}

__global__ void copy_pair(const float* x) {
  __shared__ __align__(16) float place[8];
  copy_async(place, x, 16, true);
}

TEST(Execution, ACopyToSharedMemoryNeedsBothEndsAligned) {
  const DeviceArray<float> x(8);
  EXPECT_EQ(fault_of({1, 1}, copy_pair, x.data), "");
  EXPECT_TRUE(holds(fault_of({1, 1}, copy_pair, x.data + 1), "cp.async: needs both ends at multiples of 16 bytes"));
}

}  // namespace
}  // namespace sluice::emulation
