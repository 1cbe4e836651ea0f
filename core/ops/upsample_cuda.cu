#include "core/ops/packs_cuda.cuh"
#include "core/ops/upsample.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// A thread takes kWidth neighbouring channels of one pixel of the small images. In 32 bits: pixels are found by division.
template <int kWidth>
struct Pixels {
  int in_h, in_w, out_h, out_w, factor;
  int64_t channels;
  unsigned runs, threads;  ///< of a pixel's channels; of all pixels

  explicit Pixels(const UpsamplePlan& plan)
      : in_h(static_cast<int>(plan.in_h)),
        in_w(static_cast<int>(plan.in_w)),
        out_h(static_cast<int>(plan.out_h)),
        out_w(static_cast<int>(plan.out_w)),
        factor(static_cast<int>(plan.factor)),
        channels(plan.channels) {
    const int64_t all = plan.batch * plan.in_h * plan.in_w * (channels / kWidth);
    require<UsageError>(all < (int64_t{1} << 32) - kThreads, "upsample2d on cuda: needs fewer than 2^32 groups of ", kWidth,
                        " channels, got ", all, "; use smaller micro-batches");
    runs = static_cast<unsigned>(channels / kWidth);
    threads = static_cast<unsigned>(all);
  }
  dim3 grid() const { return dim3((threads + kThreads - 1) / kThreads); }
};

/// Calls f(offset in the large images) for each pixel that the thread's one becomes, row by row.
template <int kWidth, class F>
__device__ void for_copies(const Pixels<kWidth>& pixels, unsigned thread, F f) {
  const unsigned pixel = thread / pixels.runs, line = pixel / pixels.in_w, image = line / pixels.in_h;
  const int column = static_cast<int>(pixel - line * pixels.in_w) * pixels.factor;
  const int row = static_cast<int>(line - image * pixels.in_h) * pixels.factor;
  const int64_t channel = (thread - pixel * pixels.runs) * kWidth;
  for (int i = row; i < row + pixels.factor && i < pixels.out_h; ++i)
    for (int j = column; j < column + pixels.factor && j < pixels.out_w; ++j)
      f(((int64_t{image} * pixels.out_h + i) * pixels.out_w + j) * pixels.channels + channel);
}

template <class T, int kWidth>
__global__ void repeat_pixels(const T* x, T* y, Pixels<kWidth> pixels) {
  const int64_t thread = grid_index();
  if (thread >= pixels.threads) return;
  const Run<kWidth, T> values = load_run<kWidth>(x + thread * kWidth);  // channels are a multiple of kWidth
  for_copies(pixels, static_cast<unsigned>(thread), [&](int64_t large) { store_run(y + large, values); });
}

template <class T, int kWidth>
__global__ void sum_pixels(const T* dy, T* dx, Pixels<kWidth> pixels) {
  using C = compute_t<T>;
  const int64_t thread = grid_index();
  if (thread >= pixels.threads) return;
  C sum[kWidth] = {};
  for_copies(pixels, static_cast<unsigned>(thread), [&](int64_t large) {
    const Run<kWidth, T> gradient = load_run<kWidth>(dy + large);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] += static_cast<C>(gradient.at[j]);
  });
  Run<kWidth, T> result;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) result.at[j] = static_cast<T>(sum[j]);
  store_run(dx + thread * kWidth, result);
}

/// Calls f.operator()<kWidth>(pixels), as wide as the channels allow.
template <class T, class F>
void on_pixels(const UpsamplePlan& plan, const Tensor& from, const Tensor& to, const F& f) {
  if (from.elements() == 0) return;
  if (packs_fit<T>(plan.channels, from.data<T>(), to.data<T>())) return f(Pixels<Pack<T>::kCount>(plan));
  f(Pixels<1>(plan));
}

}  // namespace

void upsample2d(Cuda& cuda, const Tensor& x, const UpsamplePlan& plan, const Tensor& y) {
  on_float(x.dtype(), "upsample2d", [&]<class T>() {
    on_pixels<T>(plan, x, y, [&]<int kWidth>(const Pixels<kWidth>& pixels) {
      launch(cuda, "upsample2d", {pixels.grid(), kThreads}, repeat_pixels<T, kWidth>, x.data<T>(), y.data<T>(), pixels);
    });
  });
}

void upsample2d_backward(Cuda& cuda, const Tensor& dy, const UpsamplePlan& plan, const Tensor& dx) {
  on_float(dy.dtype(), "upsample2d_backward", [&]<class T>() {
    on_pixels<T>(plan, dy, dx, [&]<int kWidth>(const Pixels<kWidth>& pixels) {
      launch(cuda, "upsample2d_backward", {pixels.grid(), kThreads}, sum_pixels<T, kWidth>, dy.data<T>(), dx.data<T>(), pixels);
    });
  });
}

}  // namespace sluice::kernels
