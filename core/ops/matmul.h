#pragma once
#include "core/tensor.h"

namespace sluice {

/// Matrix product over the last two axes: c = op(a) op(b), where op exchanges the last two axes if asked to.
/// Shape   op(a) [..., M, K], op(b) [..., K, N] -> [..., M, N]; the leading axes are equal, or one operand is a single matrix, or they broadcast
///         (NumPy's rule). a [K] is a row and b [K] a column, whose axis the result lacks; op leaves it alone.
/// Dtypes  f32, f64, bf16 (sums in f32); both operands alike. Strided operands are read in place when one of their last two axes has
///         unit stride, else copied.
///         Where a CPU has AMX, large products in f32 are as exact, but an infinite number, or one beyond those of bf16, makes NaN of its
///         sums (core/cpu/amx_gemm.h).
/// Errors  UsageError naming both shapes.
/// Threads the same bits for every number of threads: the larger of M and N is cut into parts by its size alone.
/// Cost    2 M N K FLOPs a matrix; scratch per intra-op thread for panels of the operands, or what oneDNN wants.
Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

/// Neither is a vector, and the leading axes are equal or one is a single matrix: what matmul_into() takes.
bool are_matrices(const Shape& a, const Shape& b);
/// What NumPy's matmul makes of other operands.
struct MatmulShapes {
  Shape a, b;    ///< to expand the operands to, b after unsqueeze(1) where it is a vector
  Shape result;  ///< to reshape the product of these to
};
/// Errors  UsageError naming both shapes.
MatmulShapes matmul_shapes(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b);

/// c = op(a) op(b) + beta c with beta 0 or 1, where c has the operands' dtype or, of bf16 operands, f32: sums that are not rounded. When c
/// is a single matrix and an operand has leading axes, the products over these are summed, in order. A bias [N] may be added to every row
/// when beta is 0 and c has the leading axes of the operands. The rows of c may lie further apart than N elements: what is between them
/// stays as it is.
/// Errors  UsageError when shapes or dtypes do not fit, the rows of c have no unit stride, c repeats elements or has those of an operand, or
///         beta is another number.
void matmul_into(const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, bool transpose_b, double beta,
                 const Tensor& bias = {});

/// op(a) op(b) in a new tensor of the shape and dtype or, where `sum` is one like that, added to it as it is made, with the bits of an
/// addition afterwards, and the sum returned. Of products that add up over leading axes, whose bits would be others, there is a new tensor all
/// the same: who has a sum asks Tensor::shares_storage().
/// Shape   as matmul_into() takes c. Dtypes  to be added to, a sum is in the dtype of the arithmetic: f32 for bf16.
/// Errors  as matmul_into().
Tensor matmul_onto(const Tensor& sum, const Shape& shape, DType dtype, const Tensor& a, const Tensor& b, bool transpose_a,
                   bool transpose_b);

/// The same of matrices, with beta 0, where the rows of a are the tokens of B samples, and those from a sample's length on are padding: c is
/// zeros in their rows or, where a is transposed and c a sum over its rows, they are left out.
/// Shape    lengths i32 [B]; a has B T rows, and so has b where a is transposed.
/// Errors   UsageError as above, and where `skips_padding` for lengths outside [0, T], naming the sample; elsewhere those beyond count as T and
///          those below as 0.
/// Cost     as if there were no padding: lengths are not known when costs are counted. No work on padding where `skips_padding`; elsewhere
///          all of it, and a pass over c, or over a and b.
void matmul_without_padding(const Tensor& a, const Tensor& b, const Tensor& c, bool transpose_a, bool transpose_b, const Tensor& lengths,
                            const Tensor& bias = {});

/// Whether products of m x k by k x n leave padding out, and so gain by knowing it: large ones on CPUs, in f32 and, where these have AMX, in bf16.
bool skips_padding(const Device& device, DType dtype, int64_t m, int64_t n, int64_t k);

namespace kernels {
/// The operands of one call; bias may be undefined.
struct MatmulOperands {
  Tensor a, b, c, bias;
  bool transpose_a, transpose_b;
  double beta;
  Tensor lengths{};  ///< of the samples whose tokens are the rows of a; only where skips_padding()
};
/// Bytes of scratch for one CPU thread. A function of the shapes alone.
int64_t matmul_scratch_bytes(const MatmulOperands& operands);
/// Products that the CPU kernel packs itself, so that it can choose rows, whatever libraries are there.
bool packs(int64_t m, int64_t n, int64_t k);
/// Scratch u8 [threads, bytes]; on CUDA without use.
void matmul(Cpu& cpu, const MatmulOperands& operands, const Tensor& scratch);
void matmul(Cuda& cuda, const MatmulOperands& operands, const Tensor& scratch);
}  // namespace kernels

}  // namespace sluice
