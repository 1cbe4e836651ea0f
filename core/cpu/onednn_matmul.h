#pragma once
#include <compare>
#include <cstdint>
#include <optional>

#include "core/dtype.h"

namespace sluice::onednn {

/// c [m, n] = op(a) op(b) + beta c + bias [n] for row-major matrices with leading dimensions (elements between rows); op transposes or not.
/// beta is 0 or 1; the bias is optional.
struct Product {
  DType dtype = DType::f32;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_ld = 0, b_ld = 0, c_ld = 0;
  bool transpose_a = false, transpose_b = false;
  double beta = 0;
  bool has_bias = false;
  bool f32_result = false;  ///< c and bias are f32, whatever a and b are

  auto operator<=>(const Product&) const = default;
};

/// Bytes of scratch that `multiply` needs; nothing when this build or this CPU has no such product (f32, and bf16 with f32 sums, stored as
/// bf16 or f32), or emulates bf16.
std::optional<int64_t> scratch_bytes(const Product& product);

/// Runs a product for which `scratch_bytes` gave a size, on the calling thread alone.
/// Threads  any; compiled products are kept per thread.
void multiply(const Product& product, const void* a, const void* b, const void* bias, void* c, void* scratch);

/// The same in f32 without a bias, by the library's BLAS function: no look-up, and its own scratch. False, and nothing done, when this build
/// has no oneDNN.
bool multiply_by_blas(const Product& product, const float* a, const float* b, float* c);

}  // namespace sluice::onednn
