#include "core/ops/matmul.h"

#include <algorithm>

#include "core/cpu/amx.h"
#include "core/dispatch.h"
#include "core/ops/copy.h"
#include "core/ops/matmul_layout.h"
#include "core/ops/overlap.h"
#include "core/ops/padded_rows.h"
#include "core/ops/padding.h"

namespace sluice {

namespace {

int64_t rows_of(const Tensor& x, bool transposed) { return x.dim(transposed ? -1 : -2); }
int64_t columns_of(const Tensor& x, bool transposed) { return x.dim(transposed ? -2 : -1); }

Shape leading(const Tensor& x) { return x.shape().without(-1).without(-1); }

void check(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  require(a.rank() >= 2 && b.rank() >= 2, "matmul_into: needs matrices, got ", a.shape(), " and ", b.shape());
  require(a.dtype() == b.dtype() && is_floating(a.dtype()), "matmul: needs two operands of one floating dtype, got ", a, " and ", b,
          "; cast one of them");
  require(columns_of(a, transpose_a) == rows_of(b, transpose_b), "matmul: needs equal inner extents, got ", a.shape(),
          transpose_a ? " transposed" : "", " and ", b.shape(), transpose_b ? " transposed" : "");
  require(are_matrices(a.shape(), b.shape()), "matmul: needs equal leading axes or one single matrix, got ", a.shape(), " and ", b.shape());
}

void check_result(const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, bool transpose_b, double beta, const Tensor& bias) {
  const Tensor& batched = a.rank() > 2 ? a : b;
  require((c.dtype() == a.dtype() || c.dtype() == compute_dtype(a.dtype())) && c.rank() >= 2 && !kernels::MatrixLayout(c).by_columns &&
              (c.rank() == 2 || leading(c) == leading(batched)) && c.dim(-2) == rows_of(a, transpose_a) &&
              c.dim(-1) == columns_of(b, transpose_b),
          "matmul_into: needs a result with contiguous rows of the operands' dtype (or f32 for bf16) and the product's shape, got ", c,
          " for ", a, " and ", b);
  require(!c.repeats_elements(), "matmul_into: needs a result whose elements are all there, got a view by expand() of shape ", c.shape(),
          "; clone() it first");
  require(beta == 0 || beta == 1, "matmul_into: needs beta 0 (store) or 1 (add), got ", beta);
  require(!bias.defined() || (bias.rank() == 1 && bias.dim(0) == c.dim(-1) && bias.dtype() == c.dtype() && bias.is_contiguous() &&
                              beta == 0 && c.rank() == batched.rank()),
          "matmul_into: needs beta 0 and a contiguous bias of the dtype and last axis of c ", c.shape(), ", got ", bias);
  for (const Tensor* read : {&a, &b, &bias})
    if (read->defined()) refuse_shared_elements("matmul_into", *read, c);
}

/// The tensor itself when rows or columns are contiguous runs that do not overlap, else a row-major copy.
Tensor with_leading_dimension(const Tensor& x) {
  const int64_t rows = x.dim(-2), columns = x.dim(-1);
  const bool by_rows = (columns == 1 || x.stride(-1) == 1) && (rows == 1 || x.stride(-2) >= columns);
  const bool by_columns = (rows == 1 || x.stride(-2) == 1) && (columns == 1 || x.stride(-1) >= rows);
  return by_rows || by_columns ? x : x.contiguous();
}

using kernels::MatmulOperands;

Cost cost_of(const MatmulOperands& of) {
  const double matrices =
      static_cast<double>(std::max({kernels::matrices_of(of.a), kernels::matrices_of(of.b), kernels::matrices_of(of.c)}));
  const double flops = 2.0 * matrices * of.c.dim(-2) * of.c.dim(-1) * columns_of(of.a, of.transpose_a);
  const double c_bytes = static_cast<double>(of.c.bytes());
  return {flops, static_cast<double>(of.a.bytes() + of.b.bytes()) + (of.beta == 0 ? 0 : c_bytes), c_bytes};
}

void multiply(const MatmulOperands& of) {
  // cuBLAS works in the device's workspace.
  const int64_t scratch_bytes = of.c.device().backend() == DeviceKind::cuda ? 0 : kernels::matmul_scratch_bytes(of);
  const Tensor scratch = empty({of.c.device().options().threads, Device::charged_size(scratch_bytes)}, DType::u8, of.c.device_ptr());
  // Of its factors: the gradient of a weight, in f32, may be larger than those.
  run_kernel(
      "matmul", {of.a, of.b, of.c, of.bias, of.lengths}, cost_of(of), [&](auto& context) { kernels::matmul(context, of, scratch); },
      of.a.dtype());
}

/// Rows of B samples, without their padding.
Tensor matrix_without_padding(const Tensor& x, const Tensor& lengths) {
  const int64_t samples = lengths.dim(0);
  return without_padding(x.contiguous().reshape({samples, x.dim(0) / samples, x.dim(1)}), lengths).reshape(x.shape());
}

}  // namespace

bool skips_padding(const Device& device, DType dtype, int64_t m, int64_t n, int64_t k) {
  const bool is_our_own = dtype == DType::f32 || (dtype == DType::bf16 && has_amx());
  return device.backend() == DeviceKind::cpu && is_our_own && kernels::packs(m, n, k);
}

void matmul_without_padding(const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, bool transpose_b, const Tensor& lengths,
                            const Tensor& bias) {
  require(a.rank() == 2 && b.rank() == 2 && c.rank() == 2 && lengths.rank() == 1 && a.dim(0) % std::max<int64_t>(1, lengths.dim(0)) == 0 &&
              !(transpose_a && transpose_b),
          "matmul_without_padding: needs matrices, the first with the tokens of every sample as rows, got ", a.shape(), ", ", b.shape(),
          " and lengths ", lengths.shape());
  check_lengths("matmul_without_padding", lengths, lengths.dim(0));
  if (lengths.dim(0) == 0) return matmul_into(a, b, c, transpose_a, transpose_b, 0, bias);
  check(a, b, transpose_a, transpose_b);
  check_result(a, b, c, transpose_a, transpose_b, 0, bias);
  if (skips_padding(a.device(), a.dtype(), c.dim(-2), c.dim(-1), rows_of(b, transpose_b)) && has_rows(a) && has_rows(b))
    return multiply({a, b, c, bias, transpose_a, transpose_b, 0, lengths.contiguous()});
  if (transpose_a)  // both, as zero times NaN is no zero
    return matmul_into(matrix_without_padding(a, lengths), matrix_without_padding(b, lengths), c, true, transpose_b, 0, bias);
  matmul_into(a, b, c, false, transpose_b, 0, bias);
  copy(matrix_without_padding(c, lengths), c);
}

bool are_matrices(const Shape& a, const Shape& b) {
  if (a.rank() < 2 || b.rank() < 2) return false;
  const auto leading_of = [](const Shape& x) { return x.extents().first(static_cast<size_t>(x.rank() - 2)); };
  return a.rank() == 2 || b.rank() == 2 || std::ranges::equal(leading_of(a), leading_of(b));
}

MatmulShapes matmul_shapes(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  require(a.rank() >= 1 && b.rank() >= 1, "matmul: needs vectors or matrices, got ", a, " and ", b);
  require(!(a.rank() == 1 && transpose_a) && !(b.rank() == 1 && transpose_b), "matmul: needs matrices to transpose, got ", a, " and ", b);
  MatmulShapes shapes{a, b, {}};
  if (a.rank() == 1) shapes.a = {1, a[0]};
  if (b.rank() == 1) shapes.b = {b[0], 1};
  const auto leading_of = [](const Shape& matrices) { return matrices.without(-1).without(-1); };
  Shape leading = leading_of(shapes.a.rank() > 2 ? shapes.a : shapes.b);
  if (!are_matrices(shapes.a, shapes.b)) {
    leading = broadcast_shape("matmul", leading_of(shapes.a), leading_of(shapes.b));
    for (Shape* matrices : {&shapes.a, &shapes.b}) *matrices = leading.appended((*matrices)[-2]).appended((*matrices)[-1]);
  }
  shapes.result = leading;
  if (a.rank() > 1) shapes.result = shapes.result.appended(shapes.a[transpose_a ? -1 : -2]);
  if (b.rank() > 1) shapes.result = shapes.result.appended(shapes.b[transpose_b ? -2 : -1]);
  return shapes;
}

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  if (!are_matrices(a.shape(), b.shape())) {
    const MatmulShapes shapes = matmul_shapes(a.shape(), b.shape(), transpose_a, transpose_b);
    const Tensor columns = b.rank() == 1 ? b.unsqueeze(1) : b;
    return matmul(a.expand(shapes.a), columns.expand(shapes.b), transpose_a, transpose_b).reshape(shapes.result);
  }
  check(a, b, transpose_a, transpose_b);
  const Tensor& batched = a.rank() > 2 ? a : b;
  const Shape shape = leading(batched).appended(rows_of(a, transpose_a)).appended(columns_of(b, transpose_b));
  Tensor c = empty(shape, a.dtype(), a.device_ptr());
  matmul_into(a, b, c, transpose_a, transpose_b, 0);
  return c;
}

void matmul_into(const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, bool transpose_b, double beta, const Tensor& bias) {
  check(a, b, transpose_a, transpose_b);
  check_result(a, b, c, transpose_a, transpose_b, beta, bias);
  device_of("matmul", {a, b, c, bias});  // also where there is nothing to multiply
  if (c.elements() == 0) return;
  if (a.elements() == 0 || b.elements() == 0) {
    if (beta == 0) copy((bias.defined() ? bias : zeros({}, c.dtype(), c.device_ptr())).expand(c.shape()), c);
    return;
  }
  if (a.rank() > 2 && b.rank() == 2 && c.rank() > 2 && !transpose_a && has_rows(a) && has_rows(c))  // one tall product
    return multiply({as_matrix(a), with_leading_dimension(b), as_matrix(c), bias, false, transpose_b, beta});
  multiply({with_leading_dimension(a), with_leading_dimension(b), c, bias, transpose_a, transpose_b, beta});
}

Tensor matmul_onto(const Tensor& sum, const Shape& shape, DType dtype, const Tensor& a, const Tensor& b, bool transpose_a,
                   bool transpose_b) {
  check(a, b, transpose_a, transpose_b);
  const bool adds = sum.defined() && kernels::adds_as_a_pass({a, b, sum, {}, transpose_a, transpose_b, 1});
  const Tensor c = adds ? sum : empty(shape, dtype, a.device_ptr());
  matmul_into(a, b, c, transpose_a, transpose_b, adds ? 1 : 0);
  return c;
}

}  // namespace sluice
