#include "core/ops/ramp.h"
#include "core/ops/select.h"
#include "core/random.h"
#include "tests/core/cuda_fixture.h"

namespace sluice {
namespace {

using CudaMakers = CudaTest;

TEST_F(CudaMakers, MakeTheNumbersOfTheCpu) {
  const auto gpu = make_device("cuda:0");
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8})
    EXPECT_EQ(arange(3, 250, 2, dtype, gpu).to_vector(), arange(3, 250, 2, dtype).to_vector()) << name_of(dtype);
  EXPECT_EQ(linspace(-2, 2, 1025, DType::f32, gpu).to_vector(), linspace(-2, 2, 1025).to_vector());
  EXPECT_EQ(eye(37, DType::f32, gpu).to_vector(), eye(37).to_vector());
  for (DType dtype : {DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(randint(3, 250, {1001}, 7, dtype, gpu).to_vector(), randint(3, 250, {1001}, 7, dtype).to_vector()) << name_of(dtype);
    EXPECT_EQ(randperm(251, 7, dtype, gpu).to_vector(), randperm(251, 7, dtype).to_vector()) << name_of(dtype);
  }
  EXPECT_EQ(arange(3, 3, 1, DType::f32, gpu).elements(), 0);
}

}  // namespace
}  // namespace sluice
