#include <algorithm>

#include "core/cpu/cpu.h"
#include "core/cpu/gemm.h"
#include "core/ops/convolution.h"

namespace sluice::kernels {

namespace {

/// Elements of columns that a thread holds: they stay in the second-level cache, with at least 32 pixels to share a weight.
constexpr int64_t kColumnElements = int64_t{1} << 17;

int64_t pixels_of_block(const Convolution& of) { return std::clamp<int64_t>(kColumnElements / of.taps(), 32, 512); }

/// oneDNN has a kernel for both sizes of piece. Only then it is taken: pieces of one pass do not mix libraries.
std::optional<int64_t> library_scratch_bytes(const Convolution& of) {
  const int64_t piece = images_of_piece(of), rest = of.plan.batch % piece;
  const auto whole = onednn::scratch_bytes(description_of(of, piece));
  if (!whole || rest == 0) return whole;
  const auto last = onednn::scratch_bytes(description_of(of, rest));
  return last ? std::optional(std::max(*whole, *last)) : std::nullopt;
}

/// Calls f(from, to, count) for the runs of pixels that the window at pixel `pixel` of y (counted over all images) covers: `from` is their
/// offset in x, `to` in the row of columns. What lies outside the image is left out.
template <class F>
void each_run(const Convolution& of, int64_t pixel, const F& f) {
  const WindowPlan& p = of.plan;
  const int64_t image = pixel / p.out_pixels(), top = pixel % p.out_pixels() / p.out_w * p.window.stride_h - p.before_h,
                left = pixel % p.out_w * p.window.stride_w - p.before_w;
  const int64_t first = std::max<int64_t>(0, -left), last = std::min(p.window.size_w, p.in_w - left);
  if (first >= last) return;
  for (int64_t r = std::max<int64_t>(0, -top); r < std::min(p.window.size_h, p.in_h - top); ++r)
    f(((image * p.in_h + top + r) * p.in_w + left + first) * of.channels, (r * p.window.size_w + first) * of.channels,
      (last - first) * of.channels);
}

/// The three passes as products of matrices with blocks of columns.
template <class C>
class ByColumns {
 public:
  ByColumns(const Convolution& of, C* columns) : of_(of), columns_(columns), block_(pixels_of_block(of)) {}

  /// Pixels [begin, end) of y.
  void forward(int64_t begin, int64_t end, const C* x, const C* weight, C* y) {
    fill(begin, end, x);
    gemm(product(end - begin, of_.outputs, of_.taps(), of_.taps(), of_.taps(), false, true, 0), columns_, weight, y + begin * of_.outputs);
  }

  /// One image of dx.
  void input_gradient(int64_t image, const C* dy, const C* weight, C* dx) {
    const int64_t elements = of_.plan.in_pixels() * of_.channels, last = (image + 1) * of_.plan.out_pixels();
    std::fill_n(dx + image * elements, elements, C(0));
    for (int64_t begin = image * of_.plan.out_pixels(); begin < last; begin += block_) {
      const int64_t end = std::min(begin + block_, last);
      gemm(product(end - begin, of_.taps(), of_.outputs, of_.outputs, of_.taps(), false, false, 0), dy + begin * of_.outputs, weight,
           columns_);
      for (int64_t pixel = begin; pixel < end; ++pixel)
        each_run(of_, pixel, [&](int64_t at, int64_t column, int64_t count) {
          const C* from = row(pixel - begin) + column;
          for (int64_t i = 0; i < count; ++i) dx[at + i] += from[i];
        });
    }
  }

  /// The sum over pixels [begin, end).
  void weight_gradient(int64_t begin, int64_t end, const C* dy, const C* x, C* dweight) {
    for (int64_t at = begin; at < end; at += block_) {
      const int64_t next = std::min(at + block_, end);
      fill(at, next, x);
      gemm(product(of_.outputs, of_.taps(), next - at, of_.outputs, of_.taps(), true, false, at == begin ? 0 : 1), dy + at * of_.outputs,
           columns_, dweight);
    }
  }

 private:
  C* row(int64_t index) { return columns_ + index * of_.taps(); }

  void fill(int64_t begin, int64_t end, const C* x) {
    std::fill_n(columns_, (end - begin) * of_.taps(), C(0));
    for (int64_t pixel = begin; pixel < end; ++pixel)
      each_run(of_, pixel, [&](int64_t at, int64_t column, int64_t count) { std::copy_n(x + at, count, row(pixel - begin) + column); });
  }

  onednn::Product product(int64_t m, int64_t n, int64_t k, int64_t a_ld, int64_t b_ld, bool transpose_a, bool transpose_b,
                          double beta) const {
    return {dtype_of<C>(), m, n, k, a_ld, b_ld, n, transpose_a, transpose_b, beta};
  }

  const Convolution& of_;
  C* columns_;
  int64_t block_;
};

template <class C>
void by_columns(Cpu& cpu, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result, const Tensor& scratch) {
  const C *a = first.data<C>(), *b = second.data<C>();
  C* to = result.data<C>();
  const auto with = [&](int64_t slot) { return ByColumns<C>(of, reinterpret_cast<C*>(scratch.data<uint8_t>() + slot * scratch.dim(1))); };
  const int64_t pixels = of.plan.batch * of.plan.out_pixels(), block = pixels_of_block(of);
  switch (of.pass) {
    case ConvolutionPass::forward:
      return cpu.parallel_slots((pixels + block - 1) / block, [&](int64_t item, int64_t slot) {
        with(slot).forward(item * block, std::min(pixels, (item + 1) * block), a, b, to);
      });
    case ConvolutionPass::input_gradient:
      return cpu.parallel_slots(of.plan.batch, [&](int64_t image, int64_t slot) { with(slot).input_gradient(image, a, b, to); });
    case ConvolutionPass::weight_gradient:
      const int64_t piece = images_of_piece(of) * of.plan.out_pixels();
      return cpu.parallel_slots(result.dim(0), [&](int64_t item, int64_t slot) {
        with(slot).weight_gradient(item * piece, std::min(pixels, (item + 1) * piece), a, b, to + item * of.outputs * of.taps());
      });
  }
}

void by_library(Cpu& cpu, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result, const Tensor& scratch) {
  const int64_t piece = images_of_piece(of), pieces = (of.plan.batch + piece - 1) / piece;
  // A piece's part of a tensor that has images.
  const auto part = [&](const Tensor& x, int64_t item) {
    return static_cast<char*>(x.data()) + item * piece * (x.bytes() / of.plan.batch);
  };
  const bool sums_weights = of.pass == ConvolutionPass::weight_gradient;
  cpu.parallel_slots(pieces, [&](int64_t item, int64_t slot) {
    const auto description = description_of(of, std::min(piece, of.plan.batch - item * piece));
    void* to = sums_weights ? static_cast<char*>(result.data()) + item * (result.bytes() / pieces) : part(result, item);
    onednn::convolve(description, part(first, item), sums_weights ? part(second, item) : second.data(), to,
                     scratch.data<uint8_t>() + slot * scratch.dim(1));
  });
}

}  // namespace

std::optional<int64_t> convolution_scratch_bytes(const Convolution& of) {
  if (const auto bytes = library_scratch_bytes(of)) return bytes;
  if (of.dtype == DType::bf16) return std::nullopt;
  return pixels_of_block(of) * of.taps() * static_cast<int64_t>(size_of(of.dtype));
}

void convolution(Cpu& cpu, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result, const Tensor& scratch) {
  if (library_scratch_bytes(of)) return by_library(cpu, of, first, second, result, scratch);
  if (of.dtype == DType::f64) return by_columns<double>(cpu, of, first, second, result, scratch);
  by_columns<float>(cpu, of, first, second, result, scratch);
}

}  // namespace sluice::kernels
