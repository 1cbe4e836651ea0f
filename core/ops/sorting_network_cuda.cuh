#pragma once
// Sorts rows of keys, ascending, by a bitonic network. Source  Batcher 1968, "Sorting networks and their applications".
#include <type_traits>

#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"
#include "core/host_device.h"

namespace sluice::kernels {

constexpr int kSortTile = 2048, kSortThreads = kSortTile / 8;  // keys that a block sorts in shared memory, eight a thread

template <class Key>
__device__ void exchange(Key& low, Key& high, bool ascending) {
  if ((low > high) != ascending) return;
  const Key kept = low;
  low = high;
  high = kept;
}

/// Runs of a row are sorted alternately up and down, so that two make one bitonic run; the last, a whole row, goes up.
__device__ inline bool goes_up(int64_t at, int64_t run, int64_t width) { return (at & (width - 1) & run) == 0; }

/// kSteps steps of the merge of runs of `run` keys, from one of distance << (kSteps - 1) down to one of `distance`: of the group of all
/// keys that these compare with one another, which a thread holds. keys(at) is the key at a place, `from` the place of the first of them.
template <int kSteps, class Index, class Keys>
__device__ void merge_group(const Keys& keys, Index group, int64_t run, Index distance, int64_t width, int64_t from = 0) {
  constexpr int kHeld = 1 << kSteps;
  const Index before = group & (distance - 1), first = (group - before) * kHeld + before;
  const bool up = goes_up(from + first, run, width);
  std::remove_reference_t<decltype(keys(Index(0)))> held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) held[i] = keys(first + i * distance);
#pragma unroll
  for (int apart = kHeld / 2; apart > 0; apart /= 2)
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if ((i & apart) == 0) exchange(held[i], held[i + apart], up);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) keys(first + i * distance) = held[i];
}

/// Calls steps<kSteps>(least distance) until all steps from distance `above` down to `least` are done, three at a time while there are.
template <class Steps>
SLUICE_HD void in_threes(int64_t above, int64_t least, const Steps& steps) {
  while (above >= least) {
    if (above >= 4 * least)
      steps.template operator()<3>(above / 4), above /= 8;
    else if (above >= 2 * least)
      steps.template operator()<2>(above / 2), above /= 4;
    else
      steps.template operator()<1>(above), above /= 2;
  }
}

/// Keys of a tile in shared memory, of `count` at `first` in all, for a block of kThreads. After every eighth one is left free, so that neither neighbours nor every
/// second, fourth or eighth key lie in one bank.
template <class Key, int kThreads = kSortThreads>
struct SortedTile {
  Key* keys;
  int64_t first, count;

  static constexpr int kRoom = kSortTile + kSortTile / 8;
  __device__ Key& operator[](int at) const { return keys[at + (at >> 3)]; }
  /// Calls f(at, key) for the keys there are.
  template <class F>
  __device__ void each(const F& f) const {
    for (int i = threadIdx.x; i < kSortTile; i += kThreads)
      if (first + i < count) f(first + i, (*this)[i]);
  }
  /// Sorts every row of `width` keys as far as the tile goes. The block then has to wait for itself.
  __device__ void sort(int64_t width) const {
    for (int64_t run = 2; run <= kSortTile && run <= width; run *= 2) merge(run, width);
  }
  /// The steps of the merge of runs of `run` keys that stay in the tile.
  __device__ void merge(int64_t run, int64_t width) const {
    in_threes(min(run, int64_t{kSortTile}) / 2, 1, [&]<int kSteps>(int64_t distance) {
      __syncthreads();
      for (int group = threadIdx.x; group < kSortTile >> kSteps; group += kThreads)
        if (first + (int64_t{group} << kSteps) < count)
          merge_group<kSteps>([&](int at) -> Key& { return (*this)[at]; }, group, run, static_cast<int>(distance), width, first);
    });
  }
};

/// keys[at] = key(at); then every tile is sorted on its own, as far as rows of `width` keys go.
template <class Key, class MakeKey>
__global__ void __launch_bounds__(kSortThreads) sort_tiles(MakeKey key, int64_t width, Key* keys, int64_t count) {
  __shared__ Key shared[SortedTile<Key>::kRoom];
  const SortedTile<Key> tile{shared, int64_t{blockIdx.x} * kSortTile, count};
  tile.each([&](int64_t at, Key& own) { own = key(at); });
  tile.sort(width);
  __syncthreads();
  tile.each([&](int64_t at, const Key& own) { keys[at] = own; });
}

/// Steps of a merge whose distances leave a tile.
template <class Key, int kSteps>
__global__ void __launch_bounds__(kSortThreads) merge_steps(Key* keys, int64_t run, int64_t distance, int64_t width) {
  merge_group<kSteps>([&](int64_t at) -> Key& { return keys[at]; }, grid_index(), run, distance, width);
}

/// The steps of that merge that stay in a tile.
template <class Key>
__global__ void __launch_bounds__(kSortThreads) merge_tiles(Key* keys, int64_t run, int64_t width, int64_t count) {
  __shared__ Key shared[SortedTile<Key>::kRoom];
  const SortedTile<Key> tile{shared, int64_t{blockIdx.x} * kSortTile, count};
  tile.each([&](int64_t at, Key& own) { own = keys[at]; });
  tile.merge(run, width);
  __syncthreads();
  tile.each([&](int64_t at, const Key& own) { keys[at] = own; });
}

/// Makes `count` keys by key(at), a function passed to the kernel by value, and sorts each row of `width` of them, a power of two.
template <class Key, class MakeKey>
void sort_rows(Cuda& cuda, const char* name, const MakeKey& key, int64_t width, Key* keys, int64_t count) {
  const dim3 tiles(static_cast<unsigned>((count + kSortTile - 1) / kSortTile));
  launch(cuda, name, {tiles, kSortThreads}, sort_tiles<Key, MakeKey>, key, width, keys, count);
  for (int64_t run = 2 * kSortTile; run <= width; run *= 2) {
    in_threes(run / 2, kSortTile, [&]<int kSteps>(int64_t distance) {
      const dim3 blocks(static_cast<unsigned>((count >> kSteps) / kSortThreads));
      launch(cuda, name, {blocks, kSortThreads}, merge_steps<Key, kSteps>, keys, run, distance, width);
    });
    launch(cuda, name, {tiles, kSortThreads}, merge_tiles<Key>, keys, run, width, count);
  }
}

}  // namespace sluice::kernels
