#pragma once
#include <cstdint>
#include <string>

#include "core/cuda/cuda.h"
#include "core/dtype.h"

namespace sluice::cublas {

/// Of the library: 130100 for 13.1.0.
size_t version();
/// What the keys of products begin with: "NVIDIA H200, driver 13000, cuBLAS 130100: ".
std::string product_prefix(const GpuDescription& gpu);

/// 16 bytes: the widest access of a thread, and the strictest alignment that algorithms are chosen by.
inline constexpr int kWidestAccess = 16;

/// c [m, n] = op(a) op(b) + beta c + bias [n] for row-major matrices with leading dimensions (elements between rows); op transposes or not.
/// `batch` such products, whose matrices lie a stride (in elements, 0 = the same matrix) apart.
/// Dtypes  a, b: f32 (TF32 where the device allows it), bf16, f64; c: the same, or f32 for bf16. Sums in f32, f64 for f64.
struct Product {
  DType dtype = DType::f32, c_dtype = DType::f32;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_ld = 0, b_ld = 0, c_ld = 0;
  bool transpose_a = false, transpose_b = false;
  double beta = 0;
  bool has_bias = false;  ///< of c's dtype; with beta 0 only
  int64_t batch = 1, a_stride = 0, b_stride = 0, c_stride = 0;
  bool has_gelu = false;  ///< see multiply_gelu
  int64_t before_ld = 0;

  auto operator<=>(const Product&) const = default;
};

/// Of matrices of one dtype without gaps between their rows.
inline Product dense_product(DType dtype, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return {.dtype = dtype,
          .c_dtype = dtype,
          .m = m,
          .n = n,
          .k = k,
          .a_ld = transpose_a ? m : k,
          .b_ld = transpose_b ? k : n,
          .c_ld = n,
          .transpose_a = transpose_a,
          .transpose_b = transpose_b};
}

/// From where on a product is cut at whole packs (product_parts.h): operations of it all, and the extent that is cut. Below, the second
/// product and its pass over memory may take longer than the first one saves.
struct CutFrom {
  double flops = 1e10;
  int64_t extent = 256;
};

/// Enqueues the product on the device's stream, with the device's workspace: in the parts of product_parts.h. Every extent is at least 1.
///
/// The first call of a kind (shapes, dtypes, alignment of the addresses up to 16 bytes) on a model of GPU chooses an algorithm, which runs
/// for the life of the process on every device of that model: bits do not depend on the partition. Choices says which; the untried one is
/// cuBLASLt's first proposal. Sums of parts of k are added up in f32 (f64), never in bf16.
/// Errors   DeviceError when cuBLAS has no such product or fails.
/// Threads  those of the device. Tuning waits, which cuts a CUDA graph under way (core/cuda/graph.h).
/// Source   docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API".
void multiply(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c, const CutFrom& cut_from = {});
/// The same by one call of the library.
void multiply_part(Cuda& cuda, const Product& product, const void* a, const void* b, const void* bias, void* c);

/// Whether GELU in a product's epilogue takes less time than a pass over memory after it: on Hopper and the data-center Blackwells. On
/// Ampere and Ada the epilogue is a pass of the library's own, and a slow one; on sm_120 it slows the product down more than a pass takes.
/// Source  github.com/karpathy/llm.c, pull requests 338 and 591; github.com/sgl-project/sglang, issue 34350.
inline bool gelu_epilogue_gains(int compute_capability) { return compute_capability == 90 || compute_capability / 10 == 10; }

/// before = op(a) op(b) + bias, with rows `before_ld` elements apart, and c = gelu_tanh(before), of sums that are not rounded in between:
/// one kernel of the library, for bf16 alone. Returns false, with nothing done, where that gains nothing or the library has no such
/// algorithm; which it is depends on the kind of product and on the model of GPU only.
bool multiply_gelu(Cuda& cuda, Product product, const void* a, const void* b, const void* bias, void* before, void* c);

}  // namespace sluice::cublas
