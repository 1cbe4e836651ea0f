#pragma once
#include <gtest/gtest.h>

#include "core/cuda/cuda.h"
#include "core/random.h"
#include "core/tensor.h"

namespace sluice {

/// Tests on a GPU, or on the emulated one; skipped where there is none.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

/// Normal numbers, the same for a name on every device. With `shift` the first element lies that many elements past an aligned address.
inline Tensor named_normal(const std::string& name, int64_t elements, DType dtype, const DevicePtr& device, int64_t shift = 0) {
  const Tensor exact = empty({elements + shift}, DType::f64);
  fill_normal(exact, 0, 1, random_key(1, name));
  return tensor_of(exact.to_vector(), exact.shape(), dtype, device).slice(0, shift, elements + shift);
}

}  // namespace sluice
