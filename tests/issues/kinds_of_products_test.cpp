// A product in bf16 whose result in f32 was larger than its factors, as is the gradient of a weight in small micro-batches, was told as one in
// f32: at 238 % of the limit of these.
#include <gtest/gtest.h>

#include "core/ops/matmul.h"

namespace sluice {
namespace {

TEST(KindsOfProducts, GoByTheirFactors) {
  for (const char* name : {"cpu:0", "meta:0"}) {
    const auto device = make_device(name, {.tallies_kernels = true});
    const Tensor a = zeros({8, 96}, DType::bf16, device), b = zeros({8, 64}, DType::bf16, device), c = zeros({96, 64}, DType::f32, device);
    device->clear_kernels();
    matmul_into(a, b, c, true, false, 0);
    matmul_onto(c, c.shape(), DType::f32, a, b, true, false);
    const auto kernels = device->kernels();
    EXPECT_EQ(kernels.at("matmul bf16").calls, 2);
    EXPECT_FALSE(kernels.contains("matmul f32"));
  }
}

}  // namespace
}  // namespace sluice
