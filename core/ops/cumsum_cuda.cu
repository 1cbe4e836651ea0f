#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/cumsum.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// A thread adds the items of one column of one chunk to `sum`; with y, it writes what that is after each.
template <class T, class S>
__device__ S scan_chunk(const ScanView& view, int64_t items, int64_t chunks, int64_t at, const T* x, S sum, T* y) {
  const int64_t row = at / view.inner, chunk = row % chunks, first = chunk * items;
  const int64_t start = row / chunks * view.n * view.inner + at % view.inner, end = min(items, view.n - first);
  for (int64_t k = 0; k < end; ++k) {
    const int64_t place = start + (view.from_end ? view.n - 1 - first - k : first + k) * view.inner;
    sum += static_cast<S>(x[place]);
    if (y) y[place] = static_cast<T>(sum);
  }
  return sum;
}

template <class T, class S>
__global__ void sum_chunks(ScanView view, int64_t items, int64_t chunks, const T* x, S* partial) {
  const int64_t at = grid_index();
  if (at < view.outer * chunks * view.inner) partial[at] = scan_chunk<T, S>(view, items, chunks, at, x, 0, nullptr);
}

/// The sums of the chunks before each.
template <class S>
__global__ void sum_before(ScanView view, int64_t chunks, S* partial) {
  const int64_t column = grid_index();
  if (column >= view.outer * view.inner) return;
  S* of_chunks = partial + column / view.inner * chunks * view.inner + column % view.inner;
  S sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const S own = of_chunks[chunk * view.inner];
    of_chunks[chunk * view.inner] = sum;
    sum += own;
  }
}

/// partial is null for a single chunk.
template <class T, class S>
__global__ void write_sums(ScanView view, int64_t items, int64_t chunks, const T* x, const S* partial, T* y) {
  const int64_t at = grid_index();
  if (at < view.outer * chunks * view.inner) scan_chunk<T, S>(view, items, chunks, at, x, partial ? partial[at] : S(0), y);
}

dim3 blocks_for(int64_t threads) { return dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)); }

}  // namespace

void cumsum(Cuda& cuda, const ScanView& view, const Tensor& x, const Tensor& partial, const Tensor& y) {
  if (y.elements() == 0) return;
  const int64_t items = view.chunk_items(), chunks = view.chunks(), columns = view.outer * view.inner;
  on_summed(x.dtype(), [&]<class T, class S>() {
    S* parts = chunks > 1 ? static_cast<S*>(partial.data()) : nullptr;
    if (parts) {
      launch(cuda, "cumsum", {blocks_for(columns * chunks), kThreads}, sum_chunks<T, S>, view, items, chunks, x.data<T>(), parts);
      launch(cuda, "cumsum", {blocks_for(columns), kThreads}, sum_before<S>, view, chunks, parts);
    }
    launch(cuda, "cumsum", {blocks_for(columns * chunks), kThreads}, write_sums<T, S>, view, items, chunks, x.data<T>(), parts,
           y.data<T>());
  });
}

}  // namespace sluice::kernels
