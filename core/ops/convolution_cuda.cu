#include <algorithm>

#include "core/cuda/cublas.h"
#include "core/cuda/cudnn.h"
#include "core/ops/convolution.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// columns [pixel of y, r, s, c] = x under the window's tap (r, s) at that pixel, 0 outside the image. A block makes those of a row of y.
template <int kWidth, class T>
__global__ void fill_columns(const T* x, T* columns, WindowPlan p, int channels) {
  const int size_h = static_cast<int>(p.window.size_h), size_w = static_cast<int>(p.window.size_w), parts = channels / kWidth;
  const int64_t image = blockIdx.x / p.out_h, top = blockIdx.x % p.out_h * p.window.stride_h - p.before_h;
  const int count = static_cast<int>(p.out_w) * size_h * size_w * parts;
  T* const to = columns + int64_t{blockIdx.x} * count * kWidth;
  for (int at = threadIdx.x; at < count; at += kThreads) {
    const int part = at % parts, tap = at / parts;
    const int s = tap % size_w, r = tap / size_w % size_h, column = tap / size_w / size_h;
    const int64_t i = top + r, j = column * p.window.stride_w - p.before_w + s;
    Run<kWidth, T> run{};
    if (i >= 0 && i < p.in_h && j >= 0 && j < p.in_w)
      run = load_run<kWidth>(x + ((image * p.in_h + i) * p.in_w + j) * channels + part * kWidth);
    store_run(to + int64_t{at} * kWidth, run);
  }
}

/// The gradient of that: each pixel of dx gathers from the columns that it went to, in the order of the taps. A block makes a row of dx.
template <int kWidth, class T>
__global__ void gather_columns(const compute_t<T>* columns, T* dx, WindowPlan p, int channels) {
  const auto& [size_h, size_w, stride_h, stride_w, padding, pad_h, pad_w, dilation_h, dilation_w] = p.window;
  const int parts = channels / kWidth, count = static_cast<int>(p.in_w) * parts;
  const int64_t image = blockIdx.x / p.in_h, bottom = blockIdx.x % p.in_h + p.before_h;
  for (int at = threadIdx.x; at < count; at += kThreads) {
    const int64_t part = at % parts, right = at / parts + p.before_w;
    compute_t<T> sums[kWidth] = {};
    for (int64_t r = bottom % stride_h; r < size_h && r <= bottom; r += stride_h) {
      const int64_t i = (bottom - r) / stride_h;
      if (i >= p.out_h) continue;
      for (int64_t s = right % stride_w; s < size_w && s <= right; s += stride_w) {
        const int64_t j = (right - s) / stride_w;
        if (j >= p.out_w) continue;
        const int64_t pixel = (image * p.out_h + i) * p.out_w + j;
        const auto from = load_run<kWidth>(columns + ((pixel * size_h + r) * size_w + s) * channels + part * kWidth);
        for (int k = 0; k < kWidth; ++k) sums[k] += from.at[k];
      }
    }
    Run<kWidth, T> run;
    for (int k = 0; k < kWidth; ++k) run.at[k] = static_cast<T>(sums[k]);
    store_run(dx + int64_t{blockIdx.x} * count * kWidth + int64_t{at} * kWidth, run);
  }
}

/// The passes over some of the images at a time.
template <class T>
class ByColumns {
 public:
  ByColumns(Cuda& cuda, const Convolution& of)
      : cuda_(cuda), of_(of), y_image_(of.plan.out_pixels() * of.outputs), x_image_(of.plan.in_pixels() * of.channels) {
    const int64_t row = std::max(of.plan.out_w * of.taps(), of.plan.in_w * of.channels);
    require<UsageError>(row <= INT32_MAX, "convolution on cuda: needs rows of an image of fewer than 2^31 numbers under its windows, got ",
                        row, "; use shorter rows, fewer channels or a smaller window");
  }

  void forward(const T* x, const T* weight, T* y, T* columns, int64_t first, int64_t images) const {
    fill(x + first * x_image_, columns, images);
    cublas::multiply(cuda_, product(images * of_.plan.out_pixels(), of_.outputs, of_.taps(), false, true), columns, weight, nullptr,
                     y + first * y_image_);
  }

  void input_gradient(const T* dy, const T* weight, T* dx, compute_t<T>* columns, int64_t first, int64_t images) const {
    auto of_columns = product(images * of_.plan.out_pixels(), of_.taps(), of_.outputs, false, false);
    of_columns.c_dtype = compute_dtype(of_.dtype);
    cublas::multiply(cuda_, of_columns, dy + first * y_image_, weight, nullptr, columns);
    T* const to = dx + first * x_image_;
    const int channels = static_cast<int>(of_.channels);
    const dim3 grid(static_cast<unsigned>(images * of_.plan.in_h));
    if (packs_fit<T>(channels, to))
      launch(cuda_, "gather_columns", {grid, kThreads}, gather_columns<Pack<T>::kCount, T>, columns, to, of_.plan, channels);
    else
      launch(cuda_, "gather_columns", {grid, kThreads}, gather_columns<1, T>, columns, to, of_.plan, channels);
  }

  void weight_gradient(const T* dy, const T* x, compute_t<T>* dweight, T* columns, int64_t first, int64_t images) const {
    fill(x + first * x_image_, columns, images);
    auto of_weight = product(of_.outputs, of_.taps(), images * of_.plan.out_pixels(), true, false);
    of_weight.c_dtype = compute_dtype(of_.dtype);
    of_weight.beta = first == 0 ? 0 : 1;
    cublas::multiply(cuda_, of_weight, dy + first * y_image_, columns, nullptr, dweight);
  }

 private:
  void fill(const T* x, T* columns, int64_t images) const {
    const dim3 grid(static_cast<unsigned>(images * of_.plan.out_h));
    const int channels = static_cast<int>(of_.channels);
    if (packs_fit<T>(channels, x, columns))
      launch(cuda_, "fill_columns", {grid, kThreads}, fill_columns<Pack<T>::kCount, T>, x, columns, of_.plan, channels);
    else
      launch(cuda_, "fill_columns", {grid, kThreads}, fill_columns<1, T>, x, columns, of_.plan, channels);
  }

  cublas::Product product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) const {
    return cublas::dense_product(of_.dtype, m, n, k, transpose_a, transpose_b);
  }

  Cuda& cuda_;
  const Convolution& of_;
  int64_t y_image_, x_image_;
};

void convolve_by_columns(Cuda& cuda, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result,
                         const Tensor& scratch) {
  const int64_t images = scratch.dim(0) / of.plan.out_pixels();
  on_float(of.dtype, "conv2d", [&]<class T>() {
    using C = compute_t<T>;
    const ByColumns<T> by_columns(cuda, of);
    const T *a = first.data<T>(), *b = second.data<T>();
    for (int64_t at = 0; at < of.plan.batch; at += images) {
      const int64_t count = std::min(images, of.plan.batch - at);
      if (of.pass == ConvolutionPass::forward) by_columns.forward(a, b, result.data<T>(), scratch.data<T>(), at, count);
      if (of.pass == ConvolutionPass::input_gradient) by_columns.input_gradient(a, b, result.data<T>(), scratch.data<C>(), at, count);
      if (of.pass == ConvolutionPass::weight_gradient) by_columns.weight_gradient(a, b, result.data<C>(), scratch.data<T>(), at, count);
    }
  });
}

}  // namespace

void convolution(Cuda& cuda, const Convolution& of, const Tensor& first, const Tensor& second, const Tensor& result,
                 const Tensor& scratch) {
  const auto own = [&] { convolve_by_columns(cuda, of, first, second, result, scratch); };
  const cudnn::Operands on{first.data(), second.data(), const_cast<void*>(result.data())};
  if (!cudnn::convolve(cuda, description_of(of, of.plan.batch), on, own)) own();
}

}  // namespace sluice::kernels
