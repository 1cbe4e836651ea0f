#pragma once
// Rows on the GPU: how threads share them, reading and writing them in 16-byte packs, and sums over them.
#include <algorithm>
#include <bit>

#include "core/ops/packs_cuda.cuh"

namespace sluice::kernels {

constexpr int kMostRowThreads = 512;  // with at most 128 registers each

/// How a kernel shares rows: a team of whole warps a row, a block [team, teams]. Thread t of a team takes the packs t, t + team, ...
/// It is a function of a row's length alone, and with it the order of every sum over a row, also where rows are not aligned.
struct RowTeams {
  static constexpr int kLeastBlock = 256;
  int team, teams, packs;  ///< packs of a thread

  /// For rows of n elements of T and a kernel that can hold `held` packs in a thread's registers.
  /// Errors  UsageError for rows so long that a position past their end may be no int.
  template <class T>
  static RowTeams of(int64_t n, int held) {
    require<UsageError>(n <= int64_t{1} << 30, "rows on cuda: need at most 2^30 elements, got ", n);
    const int packs = static_cast<int>((n + Pack<T>::kCount - 1) / Pack<T>::kCount), per_warp = held * kWarpSize;
    const int warps = std::clamp((packs + per_warp - 1) / per_warp, 1, kMostRowThreads / kWarpSize), team = warps * kWarpSize;
    return {team, std::max(1, kLeastBlock / team), (packs + team - 1) / team};
  }
  dim3 block() const { return dim3(static_cast<unsigned>(team), static_cast<unsigned>(teams)); }
  dim3 grid(int64_t rows) const { return dim3(static_cast<unsigned>((rows + teams - 1) / teams)); }
};

/// Calls f.operator()<kPacks>(teams) for a kernel that holds kPacks packs of a row in a thread's registers, at most kMost; 0 where a row is
/// too long, and for f64, which serves checks and not speed.
template <class T, int kMost, class F>
void on_rows(int64_t n, F&& f) {
  const RowTeams teams = RowTeams::of<T>(n, kMost);
  if constexpr (!std::is_same_v<T, double>) {
    if (teams.packs <= 1) return f.template operator()<1>(teams);
    if (teams.packs <= kMost) return f.template operator()<kMost>(teams);
  }
  f.template operator()<0>(teams);
}

/// The row of the calling thread's team.
__device__ inline int64_t team_row() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

/// A thread's packs of a row. With kPacks > 0 it reads them once and holds them, else four at a time whenever a loop asks for them.
template <class T, int kPacks>
class Row {
 public:
  static constexpr int kHeld = kPacks > 0 ? kPacks : 4;

  /// Nothing is read of a row with n == 0.
  __device__ Row(const T* row, int n, bool packed, compute_t<T> past_end = 0) : row_(row), n_(n), packed_(packed), past_end_(past_end) {
    if constexpr (kPacks > 0) load(0);
  }
  __device__ void load(int begin) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) held_[k] = read_whole(row_, position(begin, k), n_, packed_, past_end_);
  }
  __device__ Pack<T> held(int k) const { return std::bit_cast<Pack<T>>(held_[k]); }
  /// Changes what is held of the row, whose new elements lie in `row` from now on. Each thread writes them there itself.
  __device__ void replace(int k, const Pack<T>& pack) { held_[k] = std::bit_cast<Whole<Pack<T>>>(pack); }
  __device__ void moved_to(const T* row) { row_ = row; }
  __device__ int elements() const { return n_; }
  __device__ static int position(int begin, int k) { return begin + static_cast<int>(k * blockDim.x + threadIdx.x) * Pack<T>::kCount; }

 private:
  const T* row_;
  int n_;
  bool packed_;
  compute_t<T> past_end_;
  Whole<Pack<T>> held_[kHeld];
};

/// Calls f(k, at, pack of the first row, pack of the second, ...) for each of the thread's packs, at element `at` of rows of equal length;
/// also for packs beyond their end. k counts from 0 to kPacks - 1 where the rows are held.
template <class F, class T, int kPacks, class... Rows>
__device__ void each_pack(F f, Row<T, kPacks>& row, Rows&... rows) {
  constexpr int kHeld = Row<T, kPacks>::kHeld;
  const int step = kHeld * static_cast<int>(blockDim.x) * Pack<T>::kCount, end = kPacks > 0 ? 1 : row.elements();
  for (int begin = 0; begin < end; begin += step) {
    if constexpr (kPacks == 0) row.load(begin), (rows.load(begin), ...);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) f(k, Row<T, kPacks>::position(begin, k), row.held(k), rows.held(k)...);
  }
}

/// Two sums that share their barriers.
template <class C>
struct TwoSums {
  C first, second;
};
template <class C>
__device__ TwoSums<C> team_sums(TwoSums<C> sums) {
  return team_combine(sums, TwoSums<C>{0, 0}, [](TwoSums<C> of) { return TwoSums<C>{warp_sum(of.first), warp_sum(of.second)}; });
}

__device__ inline double exponential(double x) { return ::exp(x); }
/// By the hardware's power of two. The product is rounded, so the relative error grows with |x|: 1e-6 at 10, where e^x is 5e-5.
__device__ inline float exponential(float x) { return ::exp2f(x * 1.4426950408889634f); }

/// Maximum and sum of exp(x - maximum), in one pass. Source  Milakov, Gimelshein 2018, arXiv:1805.02867.
template <class C>
struct OnlineSum {
  C maximum = -static_cast<C>(INFINITY), sum = 0;

  /// What is subtracted from elements: never -inf, which would make NaN of elements that are -inf themselves.
  __device__ C origin() const { return maximum == -static_cast<C>(INFINITY) ? C(0) : maximum; }

  template <class T>
  __device__ void add(const Pack<T>& pack) {
    C largest = pack.at[0];
#pragma unroll
    for (int j = 1; j < Pack<T>::kCount; ++j) largest = larger(largest, static_cast<C>(pack.at[j]));
    raise_to(larger(maximum, largest));
    const C from = origin();
#pragma unroll
    for (int j = 0; j < Pack<T>::kCount; ++j) sum += exponential(static_cast<C>(pack.at[j]) - from);
  }
  __device__ void raise_to(C higher) {
    if (higher == maximum) return;
    sum *= exponential(maximum - higher);
    maximum = higher;
  }
  __device__ OnlineSum of_team() const {
    return team_combine(*this, OnlineSum(), [](OnlineSum mine) {
      const C maximum = warp_max(mine.maximum);
      mine.raise_to(maximum);
      return OnlineSum{maximum, warp_sum(mine.sum)};
    });
  }
};

}  // namespace sluice::kernels
