#include "core/ops/embedding.h"
#include "core/ops/gathered_rows_cuda.cuh"
#include "core/ops/sorting_network_cuda.cuh"

namespace sluice::kernels {

namespace {

// The gradient of a table row is the sum of the rows of dy whose id it is, in order of position. Sorting ids and positions together makes
// each sum a run of neighbours.

constexpr int64_t kNoKey = INT64_MAX;  // behind all others

/// The key of a position: id << 32 | position.
struct IdKeys {
  Indices ids;
  int64_t positions, vocabulary;
  __device__ int64_t operator()(int64_t p) const {
    const int64_t id = p < positions ? ids[p] : -1;
    return 0 <= id && id < vocabulary ? id << 32 | p : kNoKey;
  }
};

/// A warp looks at one sorted key and a slice of columns; where an id begins there, it adds up all rows of that id.
template <class T>
__global__ void add_runs(const int64_t* keys, int64_t positions, const T* dy, compute_t<T>* sums, int columns, int slices, bool packed) {
  using C = compute_t<T>;
  constexpr int kCount = Pack<T>::kCount, kInFlight = 8, kOfPack = Pack<C>::kCount, kPacks = kCount / kOfPack;
  const int64_t warp = grid_index() / kWarpSize, start = warp / slices;
  const int lane = threadIdx.x % kWarpSize;
  if (start >= positions || keys[start] == kNoKey) return;
  const int64_t id = keys[start] >> 32;
  if (start > 0 && keys[start - 1] >> 32 == id) return;
  const int at = (static_cast<int>(warp % slices) * kWarpSize + lane) * kCount;
  C* target = sums + id * columns;
  Pack<C> sums_of[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) sums_of[p] = read_pack(target, at + p * kOfPack, columns, packed);
  for (int64_t i = start;; i += kWarpSize) {
    const int64_t key = i + lane < positions ? keys[i + lane] : kNoKey;
    const int count = __popc(__ballot_sync(kWholeWarp, key >> 32 == id));  // neighbours, as keys are sorted
    for (int begin = 0; begin < count; begin += kInFlight) {
      Pack<T> rows[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t position = __shfl_sync(kWholeWarp, static_cast<unsigned>(key), (begin + k) % kWarpSize);
        rows[k] = read_pack(dy + position * columns, at, begin + k < count ? columns : 0, packed);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
#pragma unroll
        for (int j = 0; j < kCount; ++j)
          if (begin + k < count) sums_of[j / kOfPack].at[j % kOfPack] += static_cast<C>(rows[k].at[j]);
    }
    if (count < kWarpSize) break;
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) write_pack(target, at + p * kOfPack, columns, packed, sums_of[p]);
}

}  // namespace

void embedding(Cuda& cuda, const Tensor& ids, const Tensor& table, const Tensor& y) {
  const int64_t columns = table.dim(1), positions = ids.elements();
  if (columns == 0) return;
  on_float(table.dtype(), "embedding", [&]<class T>() {
    const RowsTaken rows{1, table.dim(0), positions, static_cast<int>(columns), Cuda::FaultKind::embedding_id};
    launch_gather_rows(cuda, "embedding", rows, Indices(ids), static_cast<const T*>(table.data<T>()), y.data<T>());
  });
}

void embedding_backward(Cuda& cuda, const Tensor& ids, const Tensor& dy, const Tensor& keys, const Tensor& sums) {
  constexpr int kThreads = 256;
  const int64_t columns = sums.dim(1), positions = ids.elements();
  if (columns == 0 || positions == 0) return;
  sort_rows(cuda, "embedding_backward", IdKeys{Indices(ids), positions, sums.dim(0)}, keys.elements(), keys.data<int64_t>(),
            keys.elements());
  on_float(dy.dtype(), "embedding", [&]<class T>() {
    const int64_t of_warp = kWarpSize * Pack<T>::kCount, slices = (columns + of_warp - 1) / of_warp;
    const dim3 grid(static_cast<unsigned>((positions * slices * kWarpSize + kThreads - 1) / kThreads));
    launch(cuda, "embedding_backward", {grid, kThreads}, add_runs<T>, static_cast<const int64_t*>(keys.data<int64_t>()), positions,
           dy.data<T>(), sums.data<compute_t<T>>(), static_cast<int>(columns), static_cast<int>(slices),
           packs_fit<T>(columns, dy.data<T>(), sums.data<compute_t<T>>()));
  });
}

}  // namespace sluice::kernels
