// What a GPU that failed leaves behind: an error, and not the end of the process.
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

}  // namespace
}  // namespace sluice
