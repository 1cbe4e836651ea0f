// What is left when a GPU has failed, or had no memory: errors, no end of the process, and no byte that is kept.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "core/cuda/cuda.h"
#include "core/external_kernel.h"
#include "core/tensor.h"

namespace sluice {
namespace {

__global__ void trap() { __trap(); }

/// The next call that waits for the device finds its kernel failed.
void let_kernel_fail(const Tensor& x) {
  x.device().cuda().activate();
  const cudaLaunchConfig_t config{1, 1, 0, x.device().cuda().stream()};
  ASSERT_EQ(cudaLaunchKernelEx(&config, trap), cudaSuccess);
}

struct CudaTrainingFailure : ::testing::Test {
  ~CudaTrainingFailure() override { emulation::reset(); }
};

// A block whose memory another device still reads waits in the arena for an event, which a GPU that failed never gives.
TEST_F(CudaTrainingFailure, OfAKernelLetsDevicesGoThatHandedMemoryOver) {
  for (const char* other : {"cuda:0", "cuda:1"}) {
    auto giver = make_device("cuda:0"), reader = make_device(other);
    {
      const Tensor given = ones({1000}, DType::f32, giver);
      const Tensor read = given.to(reader);
      let_kernel_fail(given);
    }
    EXPECT_THROW(giver->synchronize(), DeviceError);
    giver.reset();
    reader.reset();
    emulation::reset();
  }
}

/// Of GPU 0 and of pinned memory.
size_t bytes_taken() { return emulation::allocated_bytes(0) + emulation::allocated_bytes(-1); }

// A caller may try again with fewer devices, or less of a budget.
TEST_F(CudaTrainingFailure, ToMakeADeviceKeepsNoMemory) {
  const size_t before = bytes_taken();
  std::string last;
  for (uint64_t allocations = 0;; ++allocations) {
    emulation::refuse_allocations_after(allocations);
    try {
      make_device("cuda:0");
      EXPECT_GT(allocations, 0u);
      break;
    } catch (const ResourceError& error) {
      last = error.what();
      EXPECT_EQ(bytes_taken(), before) << "after " << allocations << " allocations";
    }
  }
  emulation::refuse_allocations_after(UINT64_MAX);
  EXPECT_EQ(bytes_taken(), before);
  EXPECT_NE(last.find("left to pin for transfers to GPUs; end other programs on this machine"), std::string::npos) << last;
}

}  // namespace
}  // namespace sluice
