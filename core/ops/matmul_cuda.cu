#include <algorithm>

#include "core/cuda/cublas.h"
#include "core/ops/matmul.h"
#include "core/ops/matmul_layout.h"

namespace sluice::kernels {

namespace {

/// Matrices of x, counted from any multiple of `count`, that lie one stride apart: those of its last leading axes that allow it.
struct Run {
  int64_t count = 1, stride = 0;
};

Run run_of(const Tensor& x, int64_t matrices) {
  if (x.rank() == 2) return {matrices, 0};  // the one matrix for all
  Run run;
  for (int axis = x.rank() - 3; axis >= 0; --axis) {
    if (x.dim(axis) == 1) continue;
    if (run.count == 1)
      run.stride = x.stride(axis);
    else if (x.stride(axis) != run.stride * run.count)
      break;
    run.count *= x.dim(axis);
  }
  return run;
}

const void* matrix(const Tensor& x, int64_t index) {
  return static_cast<const char*>(x.data()) + matrix_offset(x, index) * static_cast<int64_t>(size_of(x.dtype()));
}

}  // namespace

void matmul(Cuda& cuda, const MatmulOperands& of, const Tensor&) {
  const int64_t terms = terms_of(of), matrices = std::max(terms, matrices_of(of.c));
  const MatrixLayout a(of.a), b(of.b), c(of.c);
  const Run a_run = run_of(of.a, matrices), b_run = run_of(of.b, matrices), c_run = run_of(of.c, matrices);
  cublas::Product product{.dtype = of.a.dtype(),
                          .c_dtype = of.c.dtype(),
                          .m = of.c.dim(-2),
                          .n = of.c.dim(-1),
                          .k = of.a.dim(of.transpose_a ? -2 : -1),
                          .a_ld = a.ld,
                          .b_ld = b.ld,
                          .c_ld = c.ld,
                          .transpose_a = of.transpose_a != a.by_columns,
                          .transpose_b = of.transpose_b != b.by_columns,
                          .beta = of.beta,
                          .has_bias = of.bias.defined()};
  if (const int64_t batch = std::min({a_run.count, b_run.count, c_run.count}); terms == 1 && batch > 1) {
    product.batch = batch;
    product.a_stride = a_run.stride;
    product.b_stride = b_run.stride;
    product.c_stride = c_run.stride;
  }
  const void* bias = of.bias.defined() ? of.bias.data() : nullptr;
  for (int64_t first = 0; first < matrices; first += product.batch) {
    cublas::multiply(cuda, product, matrix(of.a, first), matrix(of.b, first), bias, const_cast<void*>(matrix(of.c, first)));
    if (terms > 1) product.beta = 1;
  }
}

}  // namespace sluice::kernels
