#pragma once
// Whole rows that data names by their index.
#include <type_traits>

#include "core/ops/indices_cuda.cuh"
#include "core/ops/rows_cuda.cuh"

namespace sluice::kernels {

/// What stands where an index is bad.
template <class T>
__device__ T of_bad_index() {
  if constexpr (std::is_integral_v<T>)
    return 0;
  else
    return static_cast<T>(compute_t<T>(NAN));
}

/// Rows of `columns` elements of tables of n of them, one table behind the other, of each of which m rows are taken.
struct RowsTaken {
  int64_t tables, n, m;
  int columns;
  Cuda::FaultKind fault;  ///< what a bad index is kept as

  __device__ int64_t table_of(int64_t row) const { return tables == 1 ? 0 : row / m; }
};

/// y[table, j] = x[table, index[j]], a row a team.
template <class T>
__global__ void __launch_bounds__(kMostRowThreads)
    gather_rows(RowsTaken of, Indices index, const T* x, T* y, bool packed, Cuda::Faults* faults) {
  const int64_t row = team_row();
  if (row >= of.tables * of.m) return;
  const int64_t table = of.table_of(row), position = row - table * of.m, at = index[position];
  const bool known = 0 <= at && at < of.n;
  if (!known && threadIdx.x == 0) keep_fault(faults, of.fault, position, at, of.n);
  Row<T, 0> from(x + (table * of.n + (known ? at : 0)) * of.columns, known ? of.columns : 0, packed);
  each_pack([&](int, int first, const Pack<T>& pack) { write_pack(y + row * of.columns, first, of.columns, packed, pack); }, from);
  if (known) return;
  for (int c = threadIdx.x; c < of.columns; c += blockDim.x) y[row * of.columns + c] = of_bad_index<T>();
}

template <class T>
void launch_gather_rows(Cuda& cuda, const char* name, const RowsTaken& of, const Indices& index, const T* x, T* y) {
  constexpr int kPacksOfThread = 4;  // of a row, in flight
  const RowTeams teams = RowTeams::of<T>(of.columns, kPacksOfThread);
  launch(cuda, name, {teams.grid(of.tables * of.m), teams.block()}, gather_rows<T>, of, index, x, y, packs_fit<T>(of.columns, x, y),
         cuda.faults());
}

}  // namespace sluice::kernels
