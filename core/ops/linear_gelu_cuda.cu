#include "core/cuda/cublas.h"
#include "core/ops/elementwise_rules.h"
#include "core/ops/linear_gelu.h"
#include "core/ops/matmul_layout.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

template <class T>
struct GeluOf {
  using C = compute_t<T>;
  __device__ void operator()(const C (&x)[1], C (&y)[1]) const { y[0] = rules::GeluTanh::value(Scalar<T>(x[0])).value; }
};

/// The elements of a matrix and what lies between its rows, which may be anything.
int64_t span_of(const Tensor& x) { return (x.dim(0) - 1) * MatrixLayout(x).ld + x.dim(1); }

}  // namespace

void linear_gelu(Cuda& cuda, const MatmulOperands& product, const Tensor& y) {
  const cublas::Product fused{.dtype = y.dtype(),
                              .c_dtype = y.dtype(),
                              .m = y.dim(0),
                              .n = y.dim(1),
                              .k = product.a.dim(1),
                              .a_ld = MatrixLayout(product.a).ld,
                              .b_ld = MatrixLayout(product.b).ld,
                              .c_ld = MatrixLayout(y).ld,
                              .transpose_b = true,
                              .before_ld = MatrixLayout(product.c).ld};
  if (cublas::multiply_gelu(cuda, fused, product.a.data(), product.b.data(), product.bias.data(), product.c.data(), y.data())) return;
  matmul(cuda, product, {});
  on_float(y.dtype(), "linear_gelu", [&]<class T>() {
    map(cuda, "gelu", GeluOf<T>{}, MapArrays<T, 1, 1>{{product.c.data<T>()}, {y.data<T>()}}, span_of(y));
  });
}

}  // namespace sluice::kernels
