#include <gtest/gtest.h>

#include "core/elements.h"
#include "core/ops/matmul.h"

/// oneDNN divides by zero where it is asked for the scratch of a product of 2^32 rows, as a plan for devices that only count asks.
namespace sluice {
namespace {

TEST(WideProducts, AreCountedBeyondTheRowsOfALibrary) {
  const auto meta = make_device("meta:0");
  for (const int64_t rows : {int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 34}) {
    const Tensor product = matmul(empty({rows, 4}, DType::f32, meta), empty({4, 4}, DType::f32, meta));
    EXPECT_EQ(product.dim(0), rows);
  }
  EXPECT_GT(meta->counted().flops, 1e11);
}

}  // namespace
}  // namespace sluice
