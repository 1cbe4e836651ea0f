#pragma once
// Sorts rows of keys, ascending, by a bitonic network. Source  Batcher 1968, "Sorting networks and their applications".
#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"

namespace sluice::kernels {

constexpr int kSortTile = 2048, kSortThreads = kSortTile / 2;  // keys that a block sorts in shared memory
constexpr int kMergeThreads = 256;

template <class Key>
__device__ void exchange(Key& low, Key& high, bool ascending) {
  if ((low > high) != ascending) return;
  const Key kept = low;
  low = high;
  high = kept;
}

/// The lower one of the two keys that comparison number i of a step with this distance is about.
__device__ inline int64_t lower_of(int64_t i, int64_t distance) { return 2 * i - (i & (distance - 1)); }

/// Runs of a row are sorted alternately up and down, so that two make one bitonic run; the last, a whole row, goes up.
__device__ inline bool goes_up(int64_t at, int64_t run, int64_t width) { return (at & (width - 1) & run) == 0; }

/// keys[at] = key(at); then every tile is sorted on its own, as far as rows of `width` keys go.
template <class Key, class MakeKey>
__global__ void __launch_bounds__(kSortThreads) sort_tiles(MakeKey key, int64_t width, Key* keys, int64_t count) {
  __shared__ Key tile[kSortTile];
  const int64_t first = int64_t{blockIdx.x} * kSortTile;
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads)
    if (first + i < count) tile[i] = key(first + i);
  for (int64_t run = 2; run <= kSortTile && run <= width; run *= 2)
    for (int64_t distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int low = static_cast<int>(lower_of(threadIdx.x, distance));
      if (first + low < count) exchange(tile[low], tile[low + distance], goes_up(first + low, run, width));
    }
  __syncthreads();
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads)
    if (first + i < count) keys[first + i] = tile[i];
}

/// kSteps steps of the merge of runs of `run` keys, whose least distance is one that leaves a tile: a thread holds all keys that these compare
/// with one another.
template <class Key, int kSteps>
__global__ void __launch_bounds__(kMergeThreads) merge_steps(Key* keys, int64_t run, int64_t distance, int64_t width) {
  constexpr int kHeld = 1 << kSteps;
  const int64_t thread = grid_index(), before = thread & (distance - 1), first = (thread - before) * kHeld + before;
  const bool up = goes_up(first, run, width);
  Key held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i] = keys[first + i * distance];
#pragma unroll
  for (int apart = kHeld / 2; apart > 0; apart /= 2)
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if ((i & apart) == 0) exchange(held[i], held[i + apart], up);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) keys[first + i * distance] = held[i];
}

/// The steps of that merge that stay in a tile.
template <class Key>
__global__ void __launch_bounds__(kSortThreads) merge_tiles(Key* keys, int64_t run, int64_t width) {
  __shared__ Key tile[kSortTile];
  const int64_t first = int64_t{blockIdx.x} * kSortTile;
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads) tile[i] = keys[first + i];
  for (int distance = kSortTile / 2; distance > 0; distance /= 2) {
    __syncthreads();
    const int low = static_cast<int>(lower_of(threadIdx.x, distance));
    exchange(tile[low], tile[low + distance], goes_up(first, run, width));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kSortTile; i += kSortThreads) keys[first + i] = tile[i];
}

/// Makes `count` keys by key(at), a function passed to the kernel by value, and sorts each row of `width` of them, a power of two.
template <class Key, class MakeKey>
void sort_rows(Cuda& cuda, const char* name, const MakeKey& key, int64_t width, Key* keys, int64_t count) {
  const dim3 tiles(static_cast<unsigned>((count + kSortTile - 1) / kSortTile));
  launch(cuda, name, {tiles, kSortThreads}, sort_tiles<Key, MakeKey>, key, width, keys, count);
  for (int64_t run = 2 * kSortTile; run <= width; run *= 2) {
    const auto merge = [&]<int kSteps>(int64_t distance) {
      const dim3 blocks(static_cast<unsigned>((count >> kSteps) / kMergeThreads));
      launch(cuda, name, {blocks, kMergeThreads}, merge_steps<Key, kSteps>, keys, run, distance, width);
    };
    for (int64_t above = run / 2; above >= kSortTile;) {  // the largest distance whose step is not yet done
      if (above >= 4 * kSortTile)
        merge.template operator()<3>(above / 4), above /= 8;
      else if (above >= 2 * kSortTile)
        merge.template operator()<2>(above / 2), above /= 4;
      else
        merge.template operator()<1>(above), above /= 2;
    }
    launch(cuda, name, {tiles, kSortThreads}, merge_tiles<Key>, keys, run, width);
  }
}

}  // namespace sluice::kernels
