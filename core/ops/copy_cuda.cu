#include <array>

#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/ops/copy.h"

namespace sluice::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32, kTileRows = 8;

/// A tensor seen through the axes of its shape that hold more than one element.
struct Strided {
  int rank = 0;
  int64_t extents[kMaxRank], from_strides[kMaxRank], to_strides[kMaxRank];
};

/// Leaves out axes of extent 1 and joins neighbours that both tensors cross with one stride.
Strided strided(const Tensor& from, const Tensor& to) {
  Strided plan;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t extent = from.dim(axis), a = from.stride(axis), b = to.stride(axis);
    if (extent == 1) continue;
    const int last = plan.rank - 1;
    if (last >= 0 && plan.from_strides[last] == a * extent && plan.to_strides[last] == b * extent) {
      plan.extents[last] *= extent;
    } else {
      plan.extents[plan.rank++] = extent;
    }
    plan.from_strides[plan.rank - 1] = a;
    plan.to_strides[plan.rank - 1] = b;
  }
  if (plan.rank == 0) plan = {1, {1}, {1}, {1}};
  return plan;
}

template <class To, class From>
__device__ To converted(From value) {
  return static_cast<To>(static_cast<compute_t<To>>(value));
}

template <class From, class To>
__global__ void copy_runs(const From* from, To* to, int64_t count) {
  for (int64_t i = grid_index(); i < count; i += grid_size()) to[i] = converted<To>(from[i]);
}

template <class T>
__global__ void copy_packs(const T* from, T* to, int64_t packs) {
  constexpr int kCount = Pack<T>::kCount;
  for (int64_t i = grid_index(); i < packs; i += grid_size()) store_pack(to + i * kCount, load_pack(from + i * kCount));
}

template <class From, class To>
__global__ void copy_strided(const From* from, To* to, Strided plan, int64_t count) {
  for (int64_t i = grid_index(); i < count; i += grid_size()) {
    int64_t rest = i, source = 0, target = 0;
    for (int axis = plan.rank - 1; axis >= 0; --axis) {
      const int64_t at = rest % plan.extents[axis];
      rest /= plan.extents[axis];
      source += at * plan.from_strides[axis];
      target += at * plan.to_strides[axis];
    }
    to[target] = converted<To>(from[source]);
  }
}

/// to[c, r] = from[r, c]: through a tile of shared memory, so that both sides go along their rows.
template <class From, class To>
__global__ void transpose_tiles(const From* from, To* to, int64_t rows, int64_t columns, int64_t from_ld, int64_t to_ld) {
  __shared__ To tile[kTile][kTile + 1];  // one column more, so that a column's elements lie in different banks
  const int64_t first_row = int64_t{blockIdx.y} * kTile, first_column = int64_t{blockIdx.x} * kTile;
  for (int row = threadIdx.y; row < kTile; row += kTileRows)
    if (first_row + row < rows && first_column + threadIdx.x < columns)
      tile[row][threadIdx.x] = converted<To>(from[(first_row + row) * from_ld + first_column + threadIdx.x]);
  __syncthreads();
  for (int column = threadIdx.y; column < kTile; column += kTileRows)
    if (first_column + column < columns && first_row + threadIdx.x < rows)
      to[(first_column + column) * to_ld + first_row + threadIdx.x] = tile[threadIdx.x][column];
}

/// A matrix of which one side runs along rows and the other along columns.
bool is_transpose(const Strided& plan) { return plan.rank == 2 && plan.from_strides[0] == 1 && plan.to_strides[1] == 1; }

template <class From, class To>
void copy_elements(Cuda& cuda, const Tensor& from, const Tensor& to) {
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t count = to.elements();
  const Strided plan = strided(from, to);
  const bool is_run = plan.rank == 1 && plan.from_strides[0] == 1 && plan.to_strides[0] == 1;
  if constexpr (std::is_same_v<From, To>)
    if (is_run && packs_fit<To>(count, source, target)) {
      const int64_t packs = count / Pack<To>::kCount;
      return launch(cuda, "copy", {grid_for(cuda, packs, kThreads), kThreads}, copy_packs<To>, source, target, packs);
    }
  if (is_run) return launch(cuda, "copy", {grid_for(cuda, count, kThreads), kThreads}, copy_runs<From, To>, source, target, count);
  const int64_t rows = plan.extents[1], columns = plan.extents[0];
  if (is_transpose(plan) && (rows + kTile - 1) / kTile <= 65535) {
    const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile));
    return launch(cuda, "transpose", {grid, dim3(kTile, kTileRows)}, transpose_tiles<From, To>, source, target, rows, columns,
                  plan.from_strides[1], plan.to_strides[0]);
  }
  launch(cuda, "copy", {grid_for(cuda, count, kThreads), kThreads}, copy_strided<From, To>, source, target, plan, count);
}

template <class T>
__global__ void fill_runs(T* x, T value, int64_t count) {
  for (int64_t i = grid_index(); i < count; i += grid_size()) x[i] = value;
}

}  // namespace

void copy(Cuda& cuda, const Tensor& from, const Tensor& to) {
  if (to.elements() == 0) return;
  on_any(from.dtype(), "copy",
         [&]<class From>() { on_any(to.dtype(), "copy", [&]<class To>() { copy_elements<From, To>(cuda, from, to); }); });
}

void fill(Cuda& cuda, const Tensor& x, double value) {
  on_any(x.dtype(), "fill", [&]<class T>() {
    launch(cuda, "fill", {grid_for(cuda, x.elements(), kThreads), kThreads}, fill_runs<T>, x.data<T>(),
           static_cast<T>(static_cast<compute_t<T>>(value)), x.elements());
  });
}

}  // namespace sluice::kernels
