#include <algorithm>

#include "core/cpu/gemm.h"
#include "core/ops/matmul.h"
#include "core/ops/matmul_layout.h"

namespace sluice::kernels {

namespace {

/// A product over the larger of m and n, cut into parts of nearly equal size, as the shape alone decides.
class Parts {
 public:
  explicit Parts(const MatmulOperands& of) {
    const MatrixLayout a(of.a), b(of.b), c(of.c);
    whole_ = {of.a.dtype(),
              of.c.dim(-2),
              of.c.dim(-1),
              of.a.dim(of.transpose_a ? -2 : -1),
              a.ld,
              b.ld,
              c.ld,
              of.transpose_a != a.by_columns,
              of.transpose_b != b.by_columns,
              of.beta,
              of.bias.defined(),
              of.c.dtype() == DType::f32};
    by_rows_ = whole_.m >= whole_.n;
    by_gemm_ = whole_.dtype != DType::bf16 && (is_tiny(whole_) || whole_.m * whole_.n * whole_.k >= kLeastByBlas);
    const int64_t extent = by_rows_ ? whole_.m : whole_.n;
    const int64_t largest = by_rows_ || whole_.transpose_a ? kLargest : kLargestColumns, wanted = (extent + largest - 1) / largest;
    size_ = wanted <= 1 ? extent : ((extent + wanted - 1) / wanted + 63) / 64 * 64;
    count_ = (extent + size_ - 1) / size_;
  }

  int64_t count() const { return count_; }
  /// Whether `gemm` multiplies them, which adds no bias and takes no scratch; else a compiled product.
  bool by_gemm() const { return by_gemm_; }

  onednn::Product product(int64_t part) const {
    onednn::Product result = whole_;
    int64_t& extent = by_rows_ ? result.m : result.n;
    extent = std::min(size_, extent - part * size_);
    return result;
  }
  int64_t a_offset(int64_t part) const { return by_rows_ ? part * size_ * (whole_.transpose_a ? 1 : whole_.a_ld) : 0; }
  int64_t b_offset(int64_t part) const { return by_rows_ ? 0 : part * size_ * (whole_.transpose_b ? whole_.b_ld : 1); }
  int64_t c_offset(int64_t part) const { return part * size_ * (by_rows_ ? whole_.c_ld : 1); }
  int64_t bias_offset(int64_t part) const { return by_rows_ ? 0 : part * size_; }

 private:
  // Small enough to share among threads, and the fastest of 256 to 8192 for the products of a GPT step (docs/performance.md).
  static constexpr int64_t kLargest = 512, kLargestColumns = 2048;
  // Large products in f32 are faster by the library's BLAS function, smaller ones by compiled products (docs/performance.md).
  static constexpr int64_t kLeastByBlas = int64_t{1} << 27;
  onednn::Product whole_;
  bool by_rows_, by_gemm_;
  int64_t size_, count_;
};

/// One part by the library that is fastest for it. The result and the bias are of C.
template <class T, class C>
void multiply(onednn::Product product, bool by_gemm, const T* a, const T* b, const C* bias, C* c, void* scratch) {
  if constexpr (!std::is_same_v<T, bfloat16>)
    if (by_gemm || !onednn::scratch_bytes(product)) {
      if (product.has_bias) {
        for (int64_t row = 0; row < product.m; ++row) std::copy_n(bias, product.n, c + row * product.c_ld);
        product.beta = 1;
      }
      return gemm(product, a, b, c);
    }
  onednn::multiply(product, a, b, bias, c, scratch);
}

}  // namespace

std::optional<int64_t> matmul_scratch_bytes(const MatmulOperands& of) {
  const Parts parts(of);
  if (parts.by_gemm()) return 0;
  int64_t bytes = 0;
  const bool adds_up = terms_of(of) > 1;
  const int64_t to_last = std::max<int64_t>(1, parts.count() - 1);  // the last part may be smaller than the first
  for (int64_t part = 0; part < parts.count(); part += to_last)
    for (double beta = of.beta; beta <= (adds_up ? 1 : of.beta); ++beta) {
      onednn::Product product = parts.product(part);
      product.beta = beta;
      const auto needed = onednn::scratch_bytes(product);
      if (!needed && product.dtype == DType::bf16) return std::nullopt;
      bytes = std::max(bytes, needed.value_or(0));
    }
  return bytes;
}

void matmul(Cpu& cpu, const MatmulOperands& of, const Tensor& scratch) {
  const int64_t results = matrices_of(of.c), terms = terms_of(of);
  const Parts parts(of);
  const auto run = [&]<class T, class C>(const T* a, const T* b, C* c) {
    const C* bias = of.bias.defined() ? of.bias.data<C>() : nullptr;
    uint8_t* memory = scratch.data<uint8_t>();
    cpu.parallel_slots(results * parts.count(), [&](int64_t item, int64_t slot) {
      const int64_t part = item % parts.count(), result = item / parts.count();
      onednn::Product product = parts.product(part);
      for (int64_t term = result; term < result + terms; ++term) {
        multiply(product, parts.by_gemm(), a + matrix_offset(of.a, term) + parts.a_offset(part),
                 b + matrix_offset(of.b, term) + parts.b_offset(part), bias ? bias + parts.bias_offset(part) : nullptr,
                 c + matrix_offset(of.c, result) + parts.c_offset(part), memory + slot * scratch.dim(1));
        product.beta = 1;
      }
    });
  };
  on_float(of.a.dtype(), "matmul", [&]<class T>() {
    const T *a = of.a.data<T>(), *b = of.b.data<T>();
    if (of.c.dtype() == of.a.dtype())
      run(a, b, of.c.data<T>());
    else
      run(a, b, of.c.data<compute_t<T>>());
  });
}

}  // namespace sluice::kernels
