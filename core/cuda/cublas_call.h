#pragma once
#include <cublasLt.h>

#include <string>
#include <vector>

#include "core/cuda/cublas.h"

namespace sluice::cublas {

/// Throws DeviceError with the name of the call that failed.
void cublas_try(cublasStatus_t status, const char* call);

struct Operands {
  const void *a, *b, *bias;
  void* c;
  void* before = nullptr;  ///< of the GELU
};

/// A kind of call: what one algorithm serves. Alignments are in bytes, of all matrices of the batch.
struct Kind {
  Product product;
  int a_alignment, b_alignment, c_alignment;
  bool allow_tf32;
  auto operator<=>(const Kind&) const = default;
};
Kind kind_of(const Cuda& cuda, const Product& product, const Operands& on);

/// All on which the choice of an algorithm depends, in words: the GPU's model, the versions, the kind.
std::string text_of(const Cuda& cuda, const Kind& kind);

/// A stored matrix of a batch. What is row-major [rows, columns] is column-major [columns, rows] to cuBLAS.
struct Layout {
  Layout(DType dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride);
  mutable cublasLtMatrixLayoutOpaque_t opaque;  ///< the library reads it through pointers to non-const
};

/// Calls of one kind, in cuBLAS's terms: a row-major c = op(a) op(b) is the column-major c' = op(b)' op(a)', so the operands are exchanged.
/// The bias, which is added to every row of c, is then added to every column of c', as the library's epilogue does it.
/// Threads  one at a time.
class Call {
 public:
  explicit Call(const Kind& kind);

  const Product& product() const { return product_; }
  /// Before anything else: the library looks at the addresses of bias and `before` also while it chooses.
  void set_epilogue(const Operands& on);

  /// Up to `most` algorithms that can run, the one that the library expects to be the fastest first.
  std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t handle, int most) const;
  bool can_run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm) const;
  /// Enqueues.
  cublasStatus_t run(Cuda& cuda, cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const Operands& on) const;

 private:
  cublasLtMatmulPreferenceOpaque_t preferences() const;

  Product product_;
  int a_alignment_, b_alignment_, c_alignment_;
  Layout a_, b_, c_;
  mutable cublasLtMatmulDescOpaque_t operation_;  ///< see Layout
};

}  // namespace sluice::cublas
