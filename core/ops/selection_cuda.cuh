#pragma once
// The first few elements of rows in the order of sort(), without sorting the rows.
#include "core/ops/packs_cuda.cuh"
#include "core/ops/sort_keys.h"
#include "core/ops/sorting_network_cuda.cuh"
#include "core/ops/team_scan_cuda.cuh"

namespace sluice::kernels {

constexpr int kSelectThreads = 1024, kDigitBits = 12, kDigits = 1 << kDigitBits;

/// Elements [0, n) of a row that a block takes in packs wherever it begins. Threads take them in an order that nothing may depend on.
template <class T>
struct SelectedRow {
  const T* x;
  int n;
  bool descending;

  /// A key of sort_keys.h, in the order of unsigned numbers.
  __device__ uint64_t key(T value, int at) const {
    return static_cast<uint64_t>(sort_key(value, at, descending)) ^ uint64_t { 1 } << 63;
  }

  /// Calls f(key) for the keys of all elements.
  template <class F>
  __device__ void each_key(const F& f) const {
    constexpr int kWidth = Pack<T>::kCount, kInFlight = kWidth > 8 ? 2 : 4;  // the keys of 64 bytes do not fit into registers
    const int thread = static_cast<int>(threadIdx.x), past_pack = static_cast<int>(reinterpret_cast<uintptr_t>(x) % 16 / sizeof(T));
    const int head = min(n, past_pack == 0 ? 0 : kWidth - past_pack), packs = (n - head) / kWidth, tail = head + packs * kWidth;
    if (thread < head) f(key(x[thread], thread));
    if (tail + thread < n) f(key(x[tail + thread], tail + thread));
    for (int first = thread; first < packs; first += kInFlight * kSelectThreads) {
      Whole<Pack<T>> loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (first + k * kSelectThreads < packs) loaded[k] = load_whole<Pack<T>>(x + head + (first + k * kSelectThreads) * kWidth);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (first + k * kSelectThreads >= packs) break;
        const Pack<T> pack = std::bit_cast<Pack<T>>(loaded[k]);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) f(key(pack.at[i], head + (first + k * kSelectThreads) * kWidth + i));
      }
    }
  }
};

/// What is known of the last key that is wanted: its upper bits, and how many keys are certainly before it.
struct LastKey {
  uint64_t bits = 0, known = 0;  ///< known: a mask
  int before = 0, alike = 0;     ///< alike: keys that have these bits
};

/// Learns the next digit of the k-th key, of the counts of the keys of each digit among those alike so far. Source  Knuth, The Art of
/// Computer Programming, vol. 3, "Sorting by distribution", here of one bin alone.
__device__ inline LastKey with_digit(const LastKey& last, const unsigned* counts, int shift, int k) {
  constexpr int kOwn = kDigits / kSelectThreads;
  __shared__ LastKey found;
  const unsigned* own = counts + threadIdx.x * kOwn;
  unsigned sum = 0, total;
  for (int i = 0; i < kOwn; ++i) sum += own[i];
  int before = last.before + static_cast<int>(sum_before_thread(sum, total));
  for (int i = 0; i < kOwn; ++i) {
    const int alike = static_cast<int>(own[i]);
    if (before < k && k <= before + alike)
      found = {last.bits | static_cast<uint64_t>(threadIdx.x * kOwn + i) << shift, ~uint64_t{0} << shift, before, alike};
    before += alike;
  }
  __syncthreads();
  return found;
}

/// Reads digit after digit until few enough keys are left to sort them.
template <class T>
__device__ LastKey last_key(const SelectedRow<T>& row, int k, unsigned* counts) {
  LastKey last;
  for (int known = 0; known == 0 || last.before + last.alike > kSortTile;) {
    const int bits = min(kDigitBits, 64 - known), shift = 64 - known - bits;
    for (int i = threadIdx.x; i < kDigits; i += kSelectThreads) counts[i] = 0;
    __syncthreads();
    row.each_key([&](uint64_t key) {
      if (((key ^ last.bits) & last.known) == 0) atomicAdd(counts + (key >> shift & ((1u << bits) - 1)), 1u);
    });
    __syncthreads();
    last = with_digit(last, counts, shift, k);
    known += bits;
  }
  return last;
}

/// A block a row: finds where the first k keys end by their digits, takes the keys up to there in any order, and sorts these. No two keys
/// are equal, so what comes out has one order.
template <class T>
__global__ void __launch_bounds__(kSelectThreads) select_first(const T* x, int64_t n, bool descending, int k, T* values, int64_t* indices) {
  __shared__ unsigned counts[kDigits];
  using Tile = SortedTile<int64_t, kSelectThreads>;
  __shared__ int64_t shared[Tile::kRoom];
  __shared__ int taken;
  const SelectedRow<T> row{x + blockIdx.x * n, static_cast<int>(n), descending};
  const LastKey last = last_key(row, k, counts);
  if (threadIdx.x == 0) taken = 0;
  int width = 2;
  while (width < last.before + last.alike) width *= 2;
  const Tile keys{shared, 0, width};
  keys.each([](int64_t, int64_t& key) { key = last_sort_key<int64_t>(); });
  __syncthreads();
  row.each_key([&](uint64_t key) {
    if ((key & last.known) <= last.bits) keys[atomicAdd(&taken, 1)] = static_cast<int64_t>(key ^ uint64_t{1} << 63);
  });
  keys.sort(width);
  __syncthreads();
  for (int i = threadIdx.x; i < k; i += kSelectThreads) {
    const int64_t index = index_of(keys[i]);
    indices[int64_t{blockIdx.x} * k + i] = index;
    values[int64_t{blockIdx.x} * k + i] = row.x[index];
  }
}

}  // namespace sluice::kernels
