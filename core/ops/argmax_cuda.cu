#include "core/ops/argmax.h"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

namespace {

template <class C>
struct Best {
  C value;
  int index;

  /// The first of equals stays.
  __device__ void offer(Best other) {
    if (other.value > value || (other.value == value && other.index < index)) *this = other;
  }
};

template <class T>
__global__ void __launch_bounds__(kMostRowThreads) argmax_rows(const T* x, int64_t* y, int64_t rows, int columns, bool packed) {
  using C = compute_t<T>;
  constexpr C kInfinity = static_cast<C>(INFINITY);
  const int64_t at_row = team_row();
  Row<T, 0> row(x + at_row * columns, at_row < rows ? columns : 0, packed, -kInfinity);
  Best<C> best{-kInfinity, 0};
  each_pack(
      [&](int, int at, const Pack<T>& pack) {
#pragma unroll
        for (int j = 0; j < Pack<T>::kCount; ++j) {
          const C value = pack.at[j];
          best.offer(value != value ? Best<C>{kInfinity, 0} : Best<C>{value, at + j});  // a NaN anywhere means index 0
        }
      },
      row);
  best = team_combine(best, Best<C>{-kInfinity, 0}, [](Best<C> of) {
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
      of.offer({__shfl_xor_sync(kWholeWarp, of.value, distance), __shfl_xor_sync(kWholeWarp, of.index, distance)});
    return of;
  });
  if (at_row < rows && threadIdx.x == 0) y[at_row] = best.index;
}

}  // namespace

void argmax(Cuda& cuda, const Tensor& x, const Tensor& y) {
  const int64_t n = x.dim(-1), rows = y.elements();
  on_float(x.dtype(), "argmax", [&]<class T>() {
    const RowTeams teams = RowTeams::of<T>(n, 4);
    launch(cuda, "argmax", {teams.grid(rows), teams.block()}, argmax_rows<T>, x.data<T>(), y.data<int64_t>(), rows, static_cast<int>(n),
           packs_fit<T>(n, x.data<T>()));
  });
}

}  // namespace sluice::kernels
