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

/// Structs of two such tensors, for ops on lists: more than two launches take, empty ones, tails, several chunks, f64 among f32, some at
/// addresses that allow no packs.
template <class Pair>
std::vector<Pair> named_pairs(const DevicePtr& device) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 250; ++i) {
    const int64_t elements = i == 3 ? 20003 : i == 200 ? 8192 : i * 5 % 43, shift = i % 3 == 1 ? 1 : 0;
    const DType dtype = i % 7 == 6 ? DType::f64 : DType::f32;
    pairs.push_back({named_normal(join("first", i), elements, dtype, device, shift),
                     named_normal(join("second", i), elements, dtype, device, i % 5 == 4 ? 1 : shift)});
  }
  return pairs;
}

}  // namespace sluice
