#include <cmath>

#include "core/cuda/cublas.h"
#include "core/device.h"
#include "core/ops/copy.h"
#include "tests/core/cuda_fixture.h"

namespace sluice::cublas {
namespace {

/// Whole numbers from -2 to 2, whose sums are exact, also in bf16.
Tensor small_integers(const Shape& shape, const char* name, DType dtype, const DevicePtr& device) {
  Tensor x = empty(shape, DType::f64);
  fill_uniform(x, -2.5, 2.5, random_key(1, name));
  for (double* at = x.data<double>(); at != x.data<double>() + x.elements(); ++at) *at = std::round(*at);
  return cast(x, dtype).to(device);
}

struct CudaMultiply : CudaTest {
  /// c of a product that is cut from `from` on; c begins as whole numbers too.
  static std::vector<double> product_of(const Product& product, const CutFrom& from) {
    const auto gpu = make_device("cuda:0");
    const Tensor a = small_integers({product.m * product.k}, "a", product.dtype, gpu);
    const Tensor b = small_integers({product.k * product.n}, "b", product.dtype, gpu);
    const Tensor bias = small_integers({product.n}, "bias", product.c_dtype, gpu);
    Tensor c = small_integers({product.m, product.n}, "c", product.c_dtype, gpu);
    multiply(gpu->cuda(), product, a.data(), b.data(), product.has_bias ? bias.data() : nullptr, c.data(), from);
    return c.to_vector();
  }
};

/// Where the parts' matrices, and biases, begin, and that c is added to once.
TEST_F(CudaMultiply, ByPartsIsTheProduct) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType c_dtype : {DType::bf16, DType::f32})
        for (const bool has_bias : {false, true})
          for (const double beta : {0.0, 1.0}) {
            if (has_bias && beta != 0) continue;
            Product product = dense_product(DType::bf16, 21, 19, 13, transpose_a, transpose_b);
            product.c_dtype = c_dtype;
            product.has_bias = has_bias;
            product.beta = beta;
            EXPECT_EQ(product_of(product, {.flops = 0, .extent = 0}), product_of(product, {}))
                << transpose_a << transpose_b << " to " << name_of(c_dtype) << (has_bias ? " + bias" : "") << ", beta " << beta;
          }
}

}  // namespace
}  // namespace sluice::cublas
