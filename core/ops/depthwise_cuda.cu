#include <algorithm>

#include "core/ops/depthwise.h"
#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 4;  // neighbours in a row of y that a thread makes: a pixel of x is loaded once for all

/// Where a thread stands: a row, neighbouring columns of it, and a run of channels. Threads of a warp go along the channels, blocks of a row
/// along the grid's y and, where that is full, its z.
template <int kWidth>
struct Place {
  __device__ Place(int64_t columns_of_row, int64_t channels_of_pixel, int step) : channels(channels_of_pixel) {
    const int64_t parts = channels / kWidth, block = int64_t{blockIdx.z} * gridDim.y + blockIdx.y, item = block * blockDim.x + threadIdx.x;
    row = blockIdx.x;
    column = item / parts * step;
    channel = item % parts * kWidth;
    is_inside = column < columns_of_row;
  }
  int64_t channels, row, column, channel;
  bool is_inside;
};

template <int kWidth>
LaunchShape places(int64_t rows, int64_t columns_of_row, int64_t channels, int step) {
  constexpr int64_t kMostAlongY = 65535;
  const int64_t items = (columns_of_row + step - 1) / step * (channels / kWidth), blocks = (items + kThreads - 1) / kThreads;
  const int64_t along_y = std::clamp<int64_t>(blocks, 1, kMostAlongY), along_z = (blocks + along_y - 1) / along_y;
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>(along_y), static_cast<unsigned>(along_z)), dim3(kThreads)};
}

template <int kWidth, class T>
__device__ void add_product(const Run<kWidth, T>& x, const Run<kWidth, compute_t<T>>& y, compute_t<T> (&sums)[kWidth]) {
  for (int k = 0; k < kWidth; ++k) sums[k] += static_cast<compute_t<T>>(x.at[k]) * y.at[k];
}

template <int kWidth, class T>
__device__ void store_sums(T* to, const compute_t<T> (&sums)[kWidth]) {
  Run<kWidth, T> run;
  for (int k = 0; k < kWidth; ++k) run.at[k] = static_cast<T>(sums[k]);
  store_run(to, run);
}

/// kColumns pixels of y for windows of kSize columns at a stride of kStride (0: any, one pixel at a time). `step` is the distance between
/// taps: negative, from the last tap on, for the gradient of the input.
template <int kWidth, int kSize, int kStride, class T>
__global__ void correlate(const T* x, const compute_t<T>* taps, int64_t step, T* y, WindowPlan p, int64_t channels) {
  using C = compute_t<T>;
  constexpr int kOutputs = kSize > 0 ? kColumns : 1;
  const Place<kWidth> at(p.out_w, channels, kOutputs);
  if (!at.is_inside) return;
  const int size_w = kSize > 0 ? kSize : static_cast<int>(p.window.size_w),
            stride_w = kSize > 0 ? kStride : static_cast<int>(p.window.stride_w);
  const int64_t top = at.row % p.out_h * p.window.stride_h - p.before_h, left = at.column * stride_w - p.before_w;
  const T* const image = x + at.row / p.out_h * p.in_pixels() * channels + at.channel;
  C sums[kOutputs][kWidth] = {};
  for (int64_t r = top < 0 ? -top : 0; r < p.window.size_h && top + r < p.in_h; ++r) {
    const C* const row_of_taps = taps + r * size_w * step + at.channel;
    const T* const row = image + (top + r) * p.in_w * channels;
    if constexpr (kSize == 0) {
      for (int s = 0; s < size_w; ++s)
        if (left + s >= 0 && left + s < p.in_w)
          add_product(load_run<kWidth>(row + (left + s) * channels), load_run<kWidth>(row_of_taps + s * step), sums[0]);
    } else {
      Run<kWidth, C> weights[kSize];
#pragma unroll
      for (int s = 0; s < kSize; ++s) weights[s] = load_run<kWidth>(row_of_taps + s * step);
#pragma unroll
      for (int pixel = 0; pixel < (kOutputs - 1) * kStride + kSize; ++pixel) {
        if (left + pixel < 0 || left + pixel >= p.in_w) continue;
        const auto value = load_run<kWidth>(row + (left + pixel) * channels);
#pragma unroll
        for (int output = 0; output < kOutputs; ++output)
          if (const int s = pixel - output * kStride; s >= 0 && s < kSize) add_product(value, weights[s], sums[output]);
      }
    }
  }
#pragma unroll
  for (int output = 0; output < kOutputs; ++output)
    if (at.column + output < p.out_w) store_sums(y + (at.row * p.out_w + at.column + output) * channels + at.channel, sums[output]);
}

/// A pixel of dx by the taps that met it.
template <int kWidth, class T>
__global__ void gather_gradient(const T* dy, const compute_t<T>* taps, T* dx, WindowPlan p, int64_t channels) {
  const Place<kWidth> at(p.in_w, channels, 1);
  if (!at.is_inside) return;
  const auto& [size_h, size_w, stride_h, stride_w, padding, pad_h, pad_w, dilation_h, dilation_w] = p.window;
  const int64_t bottom = at.row % p.in_h + p.before_h, right = at.column + p.before_w, image = at.row / p.in_h;
  compute_t<T> sums[kWidth] = {};
  for (int64_t r = bottom % stride_h; r < size_h && r <= bottom; r += stride_h) {
    const int64_t i = (bottom - r) / stride_h;
    if (i >= p.out_h) continue;
    for (int64_t s = right % stride_w; s < size_w && s <= right; s += stride_w)
      if (const int64_t j = (right - s) / stride_w; j < p.out_w)
        add_product(load_run<kWidth>(dy + ((image * p.out_h + i) * p.out_w + j) * channels + at.channel),
                    load_run<kWidth>(taps + (r * size_w + s) * channels + at.channel), sums);
  }
  store_sums(dx + (at.row * p.in_w + at.column) * channels + at.channel, sums);
}

/// The rows of y of one block of `sum_taps`.
struct Chunk {
  int64_t rows, rows_per_chunk;
};

/// partial [chunk, tap, c] for the taps of one row of the window (kSize > 0) or for one tap. Threads along x take runs of channels, those
/// along y groups of kColumns pixels; their sums are added up in the order of y.
template <int kWidth, int kSize, int kStride, class T>
__global__ void sum_taps(const T* dy, const T* x, compute_t<T>* partial, WindowPlan p, int64_t channels, Chunk chunk) {
  using C = compute_t<T>;
  constexpr int kTaps = kSize > 0 ? kSize : 1, kOutputs = kSize > 0 ? kColumns : 1;
  __shared__ C of_threads[kWidth][kThreads];
  const int stride_w = kSize > 0 ? kStride : static_cast<int>(p.window.stride_w);
  const int64_t first_tap = int64_t{blockIdx.z} * kTaps, r = first_tap / p.window.size_w, first_s = first_tap % p.window.size_w;
  const int64_t channel = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kWidth;
  const int64_t groups = (p.out_w + kOutputs - 1) / kOutputs, first_row = blockIdx.x * chunk.rows_per_chunk;
  const int64_t rows = chunk.rows - first_row < chunk.rows_per_chunk ? chunk.rows - first_row : chunk.rows_per_chunk;
  C sums[kTaps][kWidth] = {};
  for (int64_t item = threadIdx.y; channel < channels && item < rows * groups; item += blockDim.y) {
    const int64_t row = first_row + item / groups, column = item % groups * kOutputs;
    const int64_t i = row % p.out_h * p.window.stride_h - p.before_h + r, left = column * stride_w - p.before_w + first_s;
    if (i < 0 || i >= p.in_h) continue;
    const T* const row_of_x = x + (row / p.out_h * p.in_h + i) * p.in_w * channels + channel;
    Whole<Run<kWidth, T>> loaded[kOutputs]{};
#pragma unroll
    for (int output = 0; output < kOutputs; ++output)
      if (column + output < p.out_w)
        loaded[output] = load_whole<Run<kWidth, T>>(dy + (row * p.out_w + column + output) * channels + channel);
    Run<kWidth, C> gradients[kOutputs];
#pragma unroll
    for (int output = 0; output < kOutputs; ++output) {
      const auto gradient = std::bit_cast<Run<kWidth, T>>(loaded[output]);
      for (int k = 0; k < kWidth; ++k) gradients[output].at[k] = static_cast<C>(gradient.at[k]);
    }
#pragma unroll
    for (int pixel = 0; pixel < (kOutputs - 1) * kStride + kTaps; ++pixel) {
      if (left + pixel < 0 || left + pixel >= p.in_w) continue;
      const auto value = load_run<kWidth>(row_of_x + (left + pixel) * channels);
#pragma unroll
      for (int output = 0; output < kOutputs; ++output)
        if (const int s = pixel - output * kStride; s >= 0 && s < kTaps) add_product(value, gradients[output], sums[s]);
    }
  }
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  C* const to = partial + (blockIdx.x * p.window.size_h * p.window.size_w + first_tap) * channels;
#pragma unroll
  for (int s = 0; s < kTaps; ++s) {
    for (int k = 0; k < kWidth; ++k) of_threads[k][thread] = sums[s][k];
    __syncthreads();
    for (int j = thread; j < static_cast<int>(blockDim.x) * kWidth; j += kThreads) {
      const int64_t c = int64_t{blockIdx.y} * blockDim.x * kWidth + j;
      C total = 0;
      for (int y = 0; y < static_cast<int>(blockDim.y); ++y) total += of_threads[j % kWidth][y * blockDim.x + j / kWidth];
      if (c < channels) to[s * channels + c] = total;
    }
    __syncthreads();
  }
}

/// Calls f with channels of a thread, size and stride of the window as constants. Only packs of f32 and bf16 have kernels for single sizes.
template <class T, class F>
void on_kind(const Window& window, bool has_packs, const F& f) {
  constexpr int kPack = Pack<T>::kCount;
  if (!has_packs) return f.template operator()<1, 0, 0>();
  if constexpr (!std::is_same_v<T, double>) {
    const auto with_stride = [&]<int kSize>() {
      if (window.stride_w == 1) return f.template operator()<kPack, kSize, 1>();
      if (window.stride_w == 2) return f.template operator()<kPack, kSize, 2>();
      f.template operator()<kPack, 0, 0>();
    };
    if (window.size_w == 3) return with_stride.template operator()<3>();
    if (window.size_w == 5) return with_stride.template operator()<5>();
    if (window.size_w == 7) return with_stride.template operator()<7>();
  }
  f.template operator()<kPack, 0, 0>();
}

template <class T>
void correlate(Cuda& cuda, const WindowPlan& p, int64_t channels, const T* x, const compute_t<T>* taps, int64_t step, T* y) {
  on_kind<T>(p.window, packs_fit<T>(channels, x, taps, y), [&]<int kWidth, int kSize, int kStride>() {
    launch(cuda, "depthwise", places<kWidth>(p.batch * p.out_h, p.out_w, channels, kSize > 0 ? kColumns : 1),
           correlate<kWidth, kSize, kStride, T>, x, taps, step, y, p, channels);
  });
}

/// With stride 1 the gradient of the input is a convolution of dy: the images change places, and the window is seen from its other corner.
WindowPlan mirrored(const WindowPlan& p) {
  return {p.batch, p.out_h, p.out_w, p.in_h, p.in_w, p.window.size_h - 1 - p.before_h, p.window.size_w - 1 - p.before_w, p.window};
}

}  // namespace

void depthwise(Cuda& cuda, const WindowPlan& plan, const Tensor& x, const Tensor& taps, const Tensor& y) {
  on_float(x.dtype(), "conv2d",
           [&]<class T>() { correlate<T>(cuda, plan, x.dim(3), x.data<T>(), taps.data<compute_t<T>>(), x.dim(3), y.data<T>()); });
}

void depthwise_input_gradient(Cuda& cuda, const WindowPlan& p, const Tensor& dy, const Tensor& taps, const Tensor& dx) {
  const int64_t channels = dy.dim(3);
  on_float(dy.dtype(), "conv2d", [&]<class T>() {
    const T* from = dy.data<T>();
    const auto* weight = taps.data<compute_t<T>>();
    T* to = dx.data<T>();
    if (p.window.stride_h == 1 && p.window.stride_w == 1)
      return correlate<T>(cuda, mirrored(p), channels, from, weight + (taps.dim(0) - 1) * channels, -channels, to);
    const auto gather = [&]<int kWidth>() {
      launch(cuda, "depthwise_input_gradient", places<kWidth>(p.batch * p.in_h, p.in_w, channels, 1), gather_gradient<kWidth, T>, from,
             weight, to, p, channels);
    };
    if (packs_fit<T>(channels, from, weight, to))
      gather.template operator()<Pack<T>::kCount>();
    else
      gather.template operator()<1>();
  });
}

void depthwise_weight_gradient(Cuda& cuda, const WindowPlan& p, const Tensor& dy, const Tensor& x, int64_t rows_per_chunk,
                               const Tensor& partial) {
  const int64_t channels = x.dim(3);
  on_float(dy.dtype(), "conv2d", [&]<class T>() {
    const T *from = dy.data<T>(), *images = x.data<T>();
    auto* sums = partial.data<compute_t<T>>();
    on_kind<T>(p.window, packs_fit<T>(channels, from, images), [&]<int kWidth, int kSize, int kStride>() {
      const int64_t parts = channels / kWidth;
      unsigned across = 1;  // threads along the channels
      while (across < kWarpSize && across < parts) across *= 2;
      const dim3 block(across, kThreads / across);
      const dim3 grid(static_cast<unsigned>(partial.dim(0)), static_cast<unsigned>((parts + across - 1) / across),
                      static_cast<unsigned>(kSize > 0 ? p.window.size_h : partial.dim(1)));
      launch(cuda, "depthwise_weight_gradient", {grid, block}, sum_taps<kWidth, kSize, kStride, T>, from, images, sums, p, channels,
             Chunk{p.batch * p.out_h, rows_per_chunk});
    });
  });
}

}  // namespace sluice::kernels
