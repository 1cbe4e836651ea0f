#include "core/ops/convolution.h"
#include "core/random.h"
#include "tests/core/cuda_fixture.h"

namespace sluice {
namespace {

struct CudaConvolution : CudaTest {};

/// A row that 65,536 blocks and more share: no axis of a grid but x has as many.
TEST_F(CudaConvolution, OfASequenceThatIsLongerThanAGridIsHigh) {
  const auto gpu = make_device("cuda:0");
  constexpr int64_t kTokens = 65536 * 128 + 1;
  Tensor x = empty({1, 1, kTokens, 1}), weight = empty({1, 1, 2, 1});
  fill_normal(x, 0, 1, 1);
  fill_normal(weight, 0, 1, 2);
  const Window window{.size_h = 1, .size_w = 2};
  const Tensor here = conv2d(x, weight, window), there = conv2d(x.to(gpu), weight.to(gpu), window).to(default_device());
  for (int64_t token = 0; token < kTokens; token += token < 2 || token > kTokens - 3 ? 1 : 4093)
    EXPECT_NEAR(there.data<float>()[token], here.data<float>()[token], 1e-5) << token;
}

}  // namespace
}  // namespace sluice
