// A batch normalization with ReLU in it took the gradient of elements that are NaN for 0, where ReLU by itself tells of them: the gradients
// of its weights were numbers beside a loss that is none.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/backward.h"
#include "autograd/ops/batch_norm.h"
#include "autograd/ops/elementwise.h"
#include "core/elements.h"
#include "core/ops/copy.h"

namespace sluice {
namespace {

std::vector<Tensor> weight_gradients(const Tensor& pixels, bool is_fused) {
  const Var x = Var::input(pixels), gamma = Var::parameter(full({2}, 1)), beta = Var::parameter(zeros({2}));
  const Var mean(zeros({2})), variance(full({2}, 1));
  const Var norm = batch_norm_inference(x, gamma, beta, mean.value(), variance.value(), 1e-5, is_fused), y = is_fused ? norm : relu(norm);
  return gradients(y, full(y.shape(), 1), {x, gamma, beta});
}

TEST(NormWithReluOfNan, TellsOfItAsReluDoes) {
  const Tensor pixels = tensor({{1, 2}, {-1, NAN}, {3, -4}}, DType::f32);
  const auto fused = weight_gradients(pixels, true), apart = weight_gradients(pixels, false);
  for (size_t i = 0; i < fused.size(); ++i) {
    const auto got = fused[i].to_vector(), expected = apart[i].to_vector();
    for (size_t j = 0; j < got.size(); ++j)
      EXPECT_TRUE(got[j] == expected[j] || (std::isnan(got[j]) && std::isnan(expected[j])))
          << i << ", " << j << ": " << got[j] << " for " << expected[j];
  }
  EXPECT_TRUE(std::isnan(fused[2].to_vector()[1]));
}

}  // namespace
}  // namespace sluice
