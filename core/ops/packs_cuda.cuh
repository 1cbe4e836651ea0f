#pragma once
// Arrays taken in packs of 16 bytes, also where an array ends within a pack or begins at an address that allows no such access.
#include <bit>

#include "core/cuda/kernel.h"
#include "core/cuda/launch.h"

namespace sluice::kernels {

/// kWidth neighbours at an address that is aligned to their size; 1 where a whole pack is not possible.
template <int kWidth, class T>
struct alignas(kWidth * sizeof(T)) Run {
  T at[kWidth];
};
template <int kWidth, class T>
__device__ Run<kWidth, T> load_run(const T* from) {
  return *reinterpret_cast<const Run<kWidth, T>*>(from);
}
template <int kWidth, class T>
__device__ void store_run(T* to, const Run<kWidth, T>& run) {
  if constexpr (sizeof(run) < 4 || kWidth == 1)
    *reinterpret_cast<Run<kWidth, T>*>(to) = run;
  else
    store_whole(to, run);
}

/// The memory of a pack or run of small elements as registers of 4 bytes. Where two ways of loading elements of 2 bytes or less meet as
/// elements, or where these are named right behind their load, each takes a register at once, and the thread waits for every load before it
/// asks for the next.
template <class Value>
struct alignas(Value) [[gnu::may_alias]] WordsOf {
  uint32_t word[sizeof(Value) / sizeof(uint32_t)];
};
/// How a pack or run is held until its elements are used.
template <class Value, bool kHasSmallElements = (sizeof(Value{}.at[0]) < sizeof(uint32_t))>
using Whole = std::conditional_t<kHasSmallElements && sizeof(Value) % sizeof(uint32_t) == 0, WordsOf<Value>, Value>;
template <class Value>
__device__ Whole<Value> load_whole(const void* from) {
  return *static_cast<const Whole<Value>*>(from);
}

/// Elements [first, first + Pack<T>::kCount) of an array of `count`; `past_end` for those beyond it. `aligned`: whole packs allow 16-byte
/// accesses.
template <class T, class Index>
__device__ Whole<Pack<T>> read_whole(const T* from, Index first, Index count, bool aligned, compute_t<T> past_end = 0) {
  if (aligned && first + Pack<T>::kCount <= count) return load_whole<Pack<T>>(from + first);
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; ++i) pack.at[i] = first + i < count ? from[first + i] : static_cast<T>(past_end);
  return std::bit_cast<Whole<Pack<T>>>(pack);
}
template <class T, class Index>
__device__ Pack<T> read_pack(const T* from, Index first, Index count, bool aligned, compute_t<T> past_end = 0) {
  return std::bit_cast<Pack<T>>(read_whole(from, first, count, aligned, past_end));
}
template <class T, class Index>
__device__ void write_pack(T* to, Index first, Index count, bool aligned, const Pack<T>& pack) {
  if (aligned && first + Pack<T>::kCount <= count) return store_pack(to + first, pack);
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; ++i)
    if (first + i < count) to[first + i] = pack.at[i];
}

template <class T, int kInputs, int kOutputs>
struct MapArrays {
  const T* from[kInputs];
  T* to[kOutputs];  ///< null for a result of several that nobody wants
};

constexpr int kMapThreads = 256;
constexpr int kMapPacks = 2;  // a thread's, all loaded before the first is used
template <class T>
constexpr int64_t kMapTile = (Pack<T>::kCount) * int64_t{kMapThreads * kMapPacks};  // elements of a block

/// to[at] = f(from[at]), the elements given by the functions read(k) and write(k, value).
template <class T, int kInputs, int kOutputs, class F, class Read, class Write>
__device__ void map_element(const F& f, const Read& read, const Write& write) {
  compute_t<T> x[kInputs], y[kOutputs];
  for (int k = 0; k < kInputs; ++k) x[k] = static_cast<compute_t<T>>(read(k));
  f(x, y);
  for (int k = 0; k < kOutputs; ++k) write(k, static_cast<T>(y[k]));
}

template <class F, class T, int kInputs, int kOutputs>
__global__ void map_tiles(F f, MapArrays<T, kInputs, kOutputs> arrays, int64_t count, bool aligned) {
  constexpr int kWidth = Pack<T>::kCount;
  const int64_t begin = int64_t{blockIdx.x} * kMapTile<T>, end = begin + kMapTile<T>;
  if (!aligned || end > count) {
    for (int64_t at = begin + threadIdx.x; at < end && at < count; at += kMapThreads)
      map_element<T, kInputs, kOutputs>(
          f, [&](int k) { return arrays.from[k][at]; },
          [&](int k, T value) {
            if (arrays.to[k]) arrays.to[k][at] = value;
          });
    return;
  }
  const int64_t first = begin + threadIdx.x * kWidth;
  Whole<Pack<T>> loaded[kMapPacks][kInputs];
  for (int p = 0; p < kMapPacks; ++p)
    for (int k = 0; k < kInputs; ++k) loaded[p][k] = load_whole<Pack<T>>(arrays.from[k] + first + p * kMapThreads * kWidth);
#pragma unroll
  for (int p = 0; p < kMapPacks; ++p) {
    Pack<T> in[kInputs], out[kOutputs];
    for (int k = 0; k < kInputs; ++k) in[k] = std::bit_cast<Pack<T>>(loaded[p][k]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      map_element<T, kInputs, kOutputs>(
          f, [&](int k) { return in[k].at[i]; }, [&](int k, T value) { out[k].at[i] = value; });
    for (int k = 0; k < kOutputs; ++k)
      if (kOutputs == 1 || arrays.to[k]) store_pack(arrays.to[k] + first + p * kMapThreads * kWidth, out[k]);
  }
}

/// Element by element, f(x, y) makes the results y[kOutputs] from x[kInputs], both in the arithmetic type. A result's array may be that of
/// an input. f is passed to the kernel by value. Blocks are many and small: no wave of them is left half empty for long.
template <class T, class F, int kInputs, int kOutputs>
void map(Cuda& cuda, const char* name, const F& f, const MapArrays<T, kInputs, kOutputs>& arrays, int64_t count) {
  bool aligned = true;
  for (const T* from : arrays.from) aligned = aligned && packs_fit<T>(0, from);
  for (const T* to : arrays.to) aligned = aligned && packs_fit<T>(0, to);
  const dim3 grid(static_cast<unsigned>((count + kMapTile<T> - 1) / kMapTile<T>));
  launch(cuda, name, {grid, kMapThreads}, map_tiles<F, T, kInputs, kOutputs>, f, arrays, count, aligned);
}

}  // namespace sluice::kernels
