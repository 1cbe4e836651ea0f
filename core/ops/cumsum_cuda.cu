#include "core/ops/cumsum.h"
#include "core/ops/rows_cuda.cuh"
#include "core/ops/team_scan_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kLongestScannedRow = int64_t{1} << 18;  // one team's; longer ones have so many chunks that these fill the GPU

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

/// Tiles of a row, a pack of neighbours a thread. Where a row allows no whole packs, the threads read and write its elements side by side
/// and hand them to one another through shared memory: which thread adds what, and so the bits of the sums, are the same.
template <class T, bool kPacked>
class RowTiles {
 public:
  static constexpr int kWidth = Pack<T>::kCount;

  /// Elements [0, n) of a row, from the other end where from_end; none of what is no row.
  __device__ RowTiles(const ScanView& view, int64_t row, const T* x, T* y, int4* shared)
      : end_(row < view.outer ? static_cast<int>(view.n) : 0),
        first_(view.from_end ? static_cast<int>(view.n) - 1 : 0),
        step_(view.from_end ? -1 : 1),
        team_(static_cast<int>(blockDim.x)),
        from_end_(view.from_end),
        x_(x + row * view.n),
        y_(y + row * view.n),
        shared_(reinterpret_cast<Pack<T>*>(shared) + threadIdx.y * team_) {}

  __device__ int tile() const { return team_ * kWidth; }
  /// Asks for the tile that begins at `begin`.
  __device__ void load(int begin) {
    if constexpr (kPacked) {
      if (const int at = begin + static_cast<int>(threadIdx.x) * kWidth; at < end_) loaded_ = load_whole<Pack<T>>(x_ + pack_place(at));
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        loaded_.at[k] = beside(begin, k) < end_ ? x_[place(beside(begin, k))] : static_cast<T>(compute_t<T>(0));
    }
  }
  /// The thread's elements of the tile that was loaded last.
  __device__ Pack<T> take(int begin) const {
    const Pack<T> pack = std::bit_cast<Pack<T>>(loaded_);
    if constexpr (kPacked) {
      return begin + static_cast<int>(threadIdx.x) * kWidth < end_ ? in_order(pack) : Pack<T>{};
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) elements()[k * team_ + threadIdx.x] = pack.at[k];
      __syncthreads();
      return shared_[threadIdx.x];
    }
  }
  __device__ void write(int begin, const Pack<T>& pack) const {
    if constexpr (kPacked) {
      if (const int at = begin + static_cast<int>(threadIdx.x) * kWidth; at < end_) store_pack(y_ + pack_place(at), in_order(pack));
    } else {
      shared_[threadIdx.x] = pack;  // in the place of what it took from there
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (beside(begin, k) < end_) y_[place(beside(begin, k))] = elements()[k * team_ + threadIdx.x];
      __syncthreads();
    }
  }

 private:
  __device__ T* elements() const { return reinterpret_cast<T*>(shared_); }
  __device__ int beside(int begin, int k) const { return begin + k * team_ + static_cast<int>(threadIdx.x); }
  __device__ int place(int at) const { return first_ + at * step_; }
  __device__ int pack_place(int at) const { return place(at) - (from_end_ ? kWidth - 1 : 0); }
  __device__ Pack<T> in_order(const Pack<T>& pack) const {
    Pack<T> turned;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) turned.at[k] = pack.at[from_end_ ? kWidth - 1 - k : k];
    return turned;
  }

  int end_, first_, step_, team_;
  bool from_end_;
  const T* x_;
  T* y_;
  Pack<T>* shared_;
  std::conditional_t<kPacked, Whole<Pack<T>>, Pack<T>> loaded_{};
};

/// A team a row, tile after tile: the next one is on its way while one is added up.
template <class T, class S, bool kPacked>
__global__ void __launch_bounds__(kMostRowThreads) scan_rows(ScanView view, const T* x, T* y) {
  __shared__ int4 shared[kMostRowThreads];
  RowTiles<T, kPacked> tiles(view, team_row(), x, y, shared);
  tiles.load(0);
  S carried = 0;
  for (int begin = 0; begin < view.n; begin += tiles.tile()) {
    Pack<T> pack = tiles.take(begin);
    tiles.load(begin + tiles.tile());
    S own = 0, total;
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k) own += static_cast<S>(pack.at[k]);
    S sum = carried + sum_before_thread(own, total);
    carried += total;
#pragma unroll
    for (int k = 0; k < Pack<T>::kCount; ++k) pack.at[k] = static_cast<T>(sum += static_cast<S>(pack.at[k]));
    tiles.write(begin, pack);
  }
}

dim3 blocks_for(int64_t threads) { return dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)); }

}  // namespace

void cumsum(Cuda& cuda, const ScanView& view, const Tensor& x, const Tensor& partial, const Tensor& y) {
  if (y.elements() == 0) return;
  const int64_t items = view.chunk_items(), chunks = view.chunks(), columns = view.outer * view.inner;
  on_summed(x.dtype(), [&]<class T, class S>() {
    if (view.inner == 1 && chunks > 1 && view.n <= kLongestScannedRow) {
      const RowTeams teams = RowTeams::of<T>(view.n, 1);
      const T* from = x.data<T>();
      T* to = y.data<T>();
      const auto kernel = packs_fit<T>(view.n, from, to) ? scan_rows<T, S, true> : scan_rows<T, S, false>;
      return launch(cuda, "cumsum", {teams.grid(view.outer), teams.block()}, kernel, view, from, to);
    }
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
