#include <algorithm>

#include "core/cpu/amx.h"
#include "core/cpu/amx_gemm.h"
#include "core/cpu/cpu.h"
#include "core/cpu/gemm.h"
#include "core/cpu/packed_gemm.h"
#include "core/cpu/panel_rows.h"
#include "core/ops/matmul.h"
#include "core/ops/matmul_layout.h"
#include "core/ops/padding.h"

namespace sluice::kernels {

namespace {

/// Who multiplies: the fastest for a dtype and sizes, and what a build has (docs/performance.md).
enum class Way {
  eigen,     ///< f64, and products in f32 up to 32^3, where the overhead of the others costs more than their kernels win
  packed,    ///< f32 and bf16, by panels of our own
  blas,      ///< f32, by oneDNN's BLAS function: large products, and smaller ones of which b is not transposed
  amx,       ///< bf16, and large products in f32, by the processor's tiles
  compiled,  ///< oneDNN's, compiled for their sizes: bf16, and smaller products in f32
};

onednn::Product whole_of(const MatmulOperands& of) {
  const MatrixLayout a(of.a), b(of.b), c(of.c);
  return {of.a.dtype(),
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
}

/// The fewest multiplications that are faster by BLAS than compiled: of gradients of weights, of few rows or a transposed b, and of others.
int64_t least_by_blas(const onednn::Product& whole) {
  if (whole.transpose_a) return int64_t{1} << 18;
  return int64_t{1} << (whole.transpose_b || whole.m < 64 ? 27 : 20);
}

/// Compiled products add a bias as they store, which pays where few results are stored for each multiplication.
bool is_faster_by_blas(const onednn::Product& whole) {
  constexpr int64_t kLongSum = 384;
  return whole.m * whole.n * whole.k >= least_by_blas(whole) && (!whole.has_bias || whole.k < kLongSum);
}

/// With registers of 64 bytes these are, of many samples, products by a weight as it lies and gradients of weights with many more rows than
/// columns, such as that of a vocabulary, where the libraries read short pieces of a's rows, which lie far apart; and those with large results
/// of short sums (docs/performance.md).
bool is_faster_packed(const onednn::Product& whole) {
  constexpr int64_t kManySamples = 512, kLarge = int64_t{1} << 23, kLargeResult = int64_t{1} << 19, kManyColumns = 1024;
  if (!packs(whole.m, whole.n, whole.k)) return false;
  if (packed_gemm_is_fastest()) return true;
  if (whole.transpose_a) return !whole.transpose_b && whole.m >= (whole.k >= 2 * kManySamples ? 4 : 8) * whole.n;
  if (whole.transpose_b) return whole.m >= kManySamples && whole.m * whole.n * whole.k >= kLarge;
  return whole.m * whole.n >= kLargeResult && whole.n >= std::max(kManyColumns, 2 * whole.k);
}

/// Of numbers in f32, which are three in bf16 each: where few results are stored, or of few rows or columns, splitting and packing them takes
/// longer than the tiles save; and of short sums with a weight as it lies, whose operands and results are far from the core in a step
/// (docs/performance.md).
bool is_faster_by_amx(const onednn::Product& whole) {
  constexpr int64_t kLeastExtent = 64, kLeastOfWeights = 128, kLeast = int64_t{1} << 23;
  return std::min({whole.m, whole.n, whole.k}) >= kLeastExtent && whole.k >= (whole.transpose_b ? kLeastOfWeights : kLeastExtent) &&
         whole.m * whole.n * whole.k >= kLeast;
}

/// oneDNN has the product, and where several `add_up` one that adds to the result.
bool is_compiled(onednn::Product whole, bool add_up) {
  if (!onednn::scratch_bytes(whole)) return false;
  whole.beta = 1;
  return !add_up || onednn::scratch_bytes(whole);
}

Way way_of(const onednn::Product& whole, bool add_up) {
  constexpr int64_t kTiny = 32 * 32 * 32;
  if (whole.dtype == DType::bf16 && has_amx()) return Way::amx;
  if (whole.dtype == DType::bf16) return is_compiled(whole, add_up) ? Way::compiled : Way::packed;
  const int64_t multiplications = whole.m * whole.n * whole.k;
  if (whole.dtype == DType::f64 || multiplications <= kTiny) return Way::eigen;
  if (has_amx() && is_faster_by_amx(whole)) return Way::amx;
  if (is_faster_packed(whole)) return Way::packed;
  if (!is_compiled(whole, add_up)) return Way::packed;
  return is_faster_by_blas(whole) ? Way::blas : Way::compiled;
}

/// A product over the larger of m and n, cut into parts of nearly equal size. Those of the libraries follow from the shape alone, as their
/// bits follow from their sizes; those of our own, whose bits do not, are one a thread. Where they are added to c with the bits of a pass
/// tiles do so themselves; others are made beside c, where the cache holds them, and then added.
class Parts {
 public:
  Parts(const MatmulOperands& of, int threads) : whole_(whole_of(of)), by_rows_(whole_.m >= whole_.n), c_ld_(whole_.c_ld) {
    const bool adds = of.beta != 0 && adds_as_a_pass(of);
    if (adds) whole_.beta = 0;
    way_ = way_of(whole_, terms_of(of) > 1);
    is_beside_ = adds && way_ != Way::amx;
    if (!is_beside_) whole_.beta = of.beta;
    const int64_t extent = by_rows_ ? whole_.m : whole_.n;
    const bool is_own = way_ == Way::packed || way_ == Way::amx;
    const int64_t of_thread = (extent + threads - 1) / threads, of_library = by_rows_ || whole_.transpose_a ? kLargest : kLargestColumns;
    const int64_t largest = !is_own ? of_library : is_beside_ ? std::min(of_thread, of_library) : of_thread;
    const int64_t wanted = (extent + largest - 1) / largest;
    size_ = wanted <= 1 ? extent : ((extent + wanted - 1) / wanted + 63) / 64 * 64;
    count_ = (extent + size_ - 1) / size_;
  }

  Way way() const { return way_; }
  int64_t count() const { return count_; }
  onednn::Product product(int64_t part) const {
    onednn::Product result = whole_;
    int64_t& extent = by_rows_ ? result.m : result.n;
    extent = std::min(size_, extent - part * size_);
    if (is_beside_) result.c_ld = result.n;
    return result;
  }
  /// Bytes of one that is made beside c; of the others none.
  int64_t bytes_beside(DType dtype) const {
    return is_beside_ ? Device::charged_size(product(0).m * product(0).n * static_cast<int64_t>(size_of(dtype))) : 0;
  }
  int64_t a_offset(int64_t part) const { return by_rows_ ? part * size_ * (whole_.transpose_a ? 1 : whole_.a_ld) : 0; }
  int64_t b_offset(int64_t part) const { return by_rows_ ? 0 : part * size_ * (whole_.transpose_b ? whole_.b_ld : 1); }
  int64_t c_offset(int64_t part) const { return part * size_ * (by_rows_ ? c_ld_ : 1); }
  int64_t c_step() const { return c_ld_; }
  int64_t bias_offset(int64_t part) const { return by_rows_ ? 0 : part * size_; }

 private:
  // Small enough to share among threads, and the fastest of 256 to 8192 for the products of a GPT step (docs/performance.md).
  static constexpr int64_t kLargest = 512, kLargestColumns = 2048;
  onednn::Product whole_;
  Way way_;
  bool by_rows_, is_beside_;
  int64_t c_ld_, size_, count_;
};

/// One part, of listed rows where our own multiply. The result and the bias are of C.
template <class T, class C>
void multiply(onednn::Product product, Way way, const T* a, const T* b, const C* bias, C* c, ListedRows rows, void* scratch) {
  if (way == Way::compiled) return onednn::multiply(product, a, b, bias, c, scratch);
  if constexpr (!std::is_same_v<T, double>) {
    if (way == Way::amx) return amx_gemm(product, a, b, bias, c, rows, scratch);
    if (way == Way::packed) return packed_gemm(product, a, b, bias, c, rows, static_cast<float*>(scratch));
  }
  if constexpr (!std::is_same_v<T, bfloat16>) {
    if (product.has_bias) {
      for (int64_t row = 0; row < product.m; ++row) std::copy_n(bias, product.n, c + row * product.c_ld);
      product.beta = 1;
    }
    if constexpr (std::is_same_v<T, float>)
      if (way == Way::blas && onednn::multiply_by_blas(product, a, b, c)) return;
    gemm(product, a, b, c);
  }
}

/// to [rows, columns] += from, whose rows lie side by side.
template <class C>
void add_rows(const C* from, int64_t rows, int64_t columns, C* to, int64_t step) {
  for (int64_t row = 0; row < rows; ++row, from += columns, to += step) {
    if (row + 1 < rows) ask_for_row(to + step, columns);
    add_row(from, columns, to);
  }
}

/// Our own multiply listed rows.
Way way_without_padding(const onednn::Product& whole) {
  return has_amx() && (whole.dtype == DType::bf16 || is_faster_by_amx(whole)) ? Way::amx : Way::packed;
}

/// A product of the rows that are no padding. The rows of c that are get zeros.
template <class T, class C>
void multiply_without_padding(Cpu& cpu, const MatmulOperands& of, const Tensor& scratch) {
  const int64_t samples = of.lengths.dim(0), tokens = of.a.dim(0) / samples;
  const std::vector<int32_t> rows = rows_without_padding("matmul", of.lengths, tokens);
  const auto count = static_cast<int64_t>(rows.size());
  onednn::Product whole = whole_of(of);
  const Way way = way_without_padding(whole);
  const T *a = of.a.data<T>(), *b = of.b.data<T>();
  const C* bias = of.bias.defined() ? of.bias.data<C>() : nullptr;
  C* c = of.c.data<C>();
  const auto clear = [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) std::fill_n(c + row * whole.c_ld, whole.n, C(0));
  };
  if (!of.transpose_a)
    for (int64_t sample = 0; sample < samples; ++sample) clear(sample * tokens + of.lengths.data<int32_t>()[sample], (sample + 1) * tokens);
  if (count == 0) return of.transpose_a ? clear(0, whole.m) : void();
  (of.transpose_a ? whole.k : whole.m) = count;
  // By columns of c: each of them takes all rows that are listed.
  const int64_t threads = cpu.threads(), strip = ((whole.n + threads - 1) / threads + 63) / 64 * 64;
  cpu.parallel_slots((whole.n + strip - 1) / strip, [&](int64_t part, int64_t slot) {
    onednn::Product product = whole;
    const int64_t first = part * strip;
    product.n = std::min(strip, whole.n - first);
    multiply(product, way, a, b + first * (whole.transpose_b ? whole.b_ld : 1), bias ? bias + first : nullptr, c + first, {rows.data()},
             scratch.data<uint8_t>() + slot * scratch.dim(1));
  });
}

template <class T, class C>
void matmul_of(Cpu& cpu, const MatmulOperands& of, const Tensor& scratch) {
  if constexpr (!std::is_same_v<T, double>)
    if (of.lengths.defined()) return multiply_without_padding<T, C>(cpu, of, scratch);
  const int64_t results = matrices_of(of.c), terms = terms_of(of);
  const Parts parts(of, cpu.threads());
  const T *a = of.a.data<T>(), *b = of.b.data<T>();
  const C* bias = of.bias.defined() ? of.bias.data<C>() : nullptr;
  C* c = of.c.data<C>();
  uint8_t* memory = scratch.data<uint8_t>();
  const int64_t beside = parts.bytes_beside(of.c.dtype());
  cpu.parallel_slots(results * parts.count(), [&](int64_t item, int64_t slot) {
    const int64_t part = item % parts.count(), result = item / parts.count();
    onednn::Product product = parts.product(part);
    C* const at = c + matrix_offset(of.c, result) + parts.c_offset(part);
    uint8_t* const own = memory + slot * scratch.dim(1);
    C* const to = beside > 0 ? reinterpret_cast<C*>(own) : at;
    for (int64_t term = result; term < result + terms; ++term) {
      multiply(product, parts.way(), a + matrix_offset(of.a, term) + parts.a_offset(part),
               b + matrix_offset(of.b, term) + parts.b_offset(part), bias ? bias + parts.bias_offset(part) : nullptr, to, {}, own + beside);
      product.beta = 1;
    }
    if constexpr (std::is_same_v<C, compute_t<C>>)
      if (beside > 0) add_rows(to, product.m, product.n, at, parts.c_step());
  });
}

}  // namespace

bool packs(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLarge = int64_t{1} << 22, kLeastExtent = 32;
  return m * n * k >= kLarge && std::min(m, n) >= kLeastExtent;
}

int64_t matmul_scratch_bytes(const MatmulOperands& of) {
  const auto of_our_own = [](Way way, const onednn::Product& product) {
    return way == Way::amx ? amx_gemm_scratch(product) : packed_gemm_scratch(product) * static_cast<int64_t>(sizeof(float));
  };
  if (of.lengths.defined()) return of_our_own(way_without_padding(whole_of(of)), whole_of(of));
  const Parts parts(of, 1);
  const int64_t beside = parts.bytes_beside(of.c.dtype());
  if (parts.way() == Way::eigen || parts.way() == Way::blas) return beside;
  if (parts.way() == Way::amx || parts.way() == Way::packed) return beside + of_our_own(parts.way(), parts.product(0));
  int64_t bytes = 0;
  const bool adds_up = terms_of(of) > 1;
  const int64_t to_last = std::max<int64_t>(1, parts.count() - 1);  // the last part may be smaller than the first
  for (int64_t part = 0; part < parts.count(); part += to_last) {
    onednn::Product product = parts.product(part);
    for (const double last = adds_up ? 1 : product.beta; product.beta <= last; ++product.beta)
      bytes = std::max(bytes, onednn::scratch_bytes(product).value_or(0));
  }
  return beside + bytes;
}

void matmul(Cpu& cpu, const MatmulOperands& of, const Tensor& scratch) {
  on_float(of.a.dtype(), "matmul", [&]<class T>() {
    if (of.c.dtype() == of.a.dtype())
      matmul_of<T, T>(cpu, of, scratch);
    else
      matmul_of<T, compute_t<T>>(cpu, of, scratch);
  });
}

}  // namespace sluice::kernels
