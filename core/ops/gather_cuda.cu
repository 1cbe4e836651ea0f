#include <algorithm>
#include <bit>

#include "core/ops/gather.h"
#include "core/ops/gathered_rows_cuda.cuh"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;

/// The index at a position, or -1 for a bad one, which is kept as a fault.
__device__ inline int64_t checked(const Indices& index, int64_t position, int64_t n, Cuda::Faults* faults) {
  const int64_t at = index[position];
  if (0 <= at && at < n) return at;
  keep_fault(faults, Cuda::FaultKind::index, position, at, n);
  return -1;
}

template <class T>
__global__ void gather_elements(GatherView view, const T* x, Indices index, T* y, int64_t count, Cuda::Faults* faults) {
  for (int64_t at = grid_index(); at < count; at += grid_size()) {
    const int64_t row = at / view.inner, i = at - row * view.inner, outer = row / view.m;
    const int64_t from = checked(index, view.takes_slices ? row - outer * view.m : at, view.n, faults);
    y[at] = from < 0 ? of_bad_index<T>() : x[(outer * view.n + from) * view.inner + i];
  }
}

/// A block [columns, positions]: its columns are elements before and behind the axis, and it goes through all their positions in order, as
/// many at a time as it has rows of threads. Where some of these have one index, the first of them adds them all, in their order.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_columns(GatherView view, Indices index, const T* source, compute_t<T>* sums, Cuda::Faults* faults) {
  using C = compute_t<T>;
  __shared__ int64_t targets[kThreads];
  __shared__ C values[kThreads];
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, outer = column / view.inner, i = column - outer * view.inner;
  const bool exists = column < view.outer * view.inner;
  const int mine = threadIdx.y * blockDim.x + threadIdx.x, step = blockDim.x, end = blockDim.x * blockDim.y;
  C* to = sums + outer * view.n * view.inner + i;
  for (int64_t first = 0; first < view.m; first += blockDim.y) {
    const int64_t j = first + threadIdx.y, from = (outer * view.m + j) * view.inner + i;
    const bool has = exists && j < view.m;
    const int64_t target = has ? checked(index, view.takes_slices ? j : from, view.n, faults) : -1;
    targets[mine] = target;
    values[mine] = has ? static_cast<C>(source[from]) : C(0);
    __syncthreads();
    int earlier = threadIdx.x;
    while (earlier < mine && targets[earlier] != target) earlier += step;
    if (target >= 0 && earlier == mine) {
      C sum = to[target * view.inner];
      for (int same = mine; same < end; same += step)
        if (targets[same] == target) sum += values[same];
      to[target * view.inner] = sum;
    }
    __syncthreads();
  }
}

__global__ void check_range(Indices index, int64_t count, int64_t n, Cuda::Faults* faults) {
  for (int64_t at = grid_index(); at < count; at += grid_size()) checked(index, at, n, faults);
}

}  // namespace

void gather(Cuda& cuda, const GatherView& view, const Tensor& x, const Tensor& index, const Tensor& y) {
  constexpr int64_t kLeastRow = 128;  // bytes below which a warp a row would leave too many lanes without work
  const int64_t count = y.elements();
  if (count == 0) return;
  on_any(x.dtype(), "gather", [&]<class T>() {
    if (const int64_t bytes = view.inner * sizeof(T); view.takes_slices && kLeastRow <= bytes && view.inner <= int64_t{1} << 30) {
      const RowsTaken rows{view.outer, view.n, view.m, static_cast<int>(view.inner), Cuda::FaultKind::index};
      return launch_gather_rows(cuda, "gather", rows, Indices(index), static_cast<const T*>(x.data<T>()), y.data<T>());
    }
    launch(cuda, "gather", {grid_for(cuda, count, kThreads), kThreads}, gather_elements<T>, view, x.data<T>(), Indices(index), y.data<T>(),
           count, cuda.faults());
  });
}

void scatter_add(Cuda& cuda, const GatherView& view, const Tensor& index, const Tensor& source, const Tensor& sums) {
  if (source.elements() == 0) return;
  const auto power_of_two = [](int64_t of, uint64_t most) { return static_cast<unsigned>(std::bit_ceil(std::min<uint64_t>(of, most))); };
  const unsigned positions = power_of_two(view.m, kThreads / power_of_two(view.inner, kWarpSize)), across = kThreads / positions;
  const dim3 grid(static_cast<unsigned>((view.outer * view.inner + across - 1) / across));
  on_float(source.dtype(), "scatter_add", [&]<class T>() {
    launch(cuda, "scatter_add", {grid, dim3(across, positions)}, add_columns<T>, view, Indices(index), source.data<T>(),
           sums.data<compute_t<T>>(), cuda.faults());
  });
}

void check_indices(Cuda& cuda, const Tensor& index, int64_t n) {
  const int64_t count = index.elements();
  launch(cuda, "check_indices", {grid_for(cuda, count, kThreads), kThreads}, check_range, Indices(index), count, n, cuda.faults());
}

}  // namespace sluice::kernels
