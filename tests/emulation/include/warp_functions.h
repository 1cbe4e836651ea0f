#pragma once
#include <bit>
#include <type_traits>

#include "emulation.h"

// Barriers, shuffles and votes. All lanes that a mask names must call the same function with the same mask.
inline void __syncthreads() { sluice::emulation::block_barrier("__syncthreads", false); }
inline int __syncthreads_count(int predicate) { return sluice::emulation::block_barrier("__syncthreads_count", predicate != 0); }
inline int __syncthreads_or(int predicate) { return sluice::emulation::block_barrier("__syncthreads_or", predicate != 0) > 0; }
inline int __syncthreads_and(int predicate) { return sluice::emulation::block_barrier("__syncthreads_and", predicate == 0) == 0; }

namespace sluice::emulation {

/// Calls f(lane) for each lane of a mask.
template <class F>
void for_lanes(uint32_t lanes, F&& f) {
  for (; lanes; lanes &= lanes - 1) f(std::countr_zero(lanes));
}

inline void combine_nothing(void* const*, uint32_t) {}
inline constexpr WarpOperation kSyncWarp{"__syncwarp", combine_nothing};

enum class ShuffleKind { index, exclusive_or, up, down };
template <ShuffleKind kind>
inline constexpr const char* kShuffleName = kind == ShuffleKind::index          ? "__shfl_sync"
                                            : kind == ShuffleKind::exclusive_or ? "__shfl_xor_sync"
                                            : kind == ShuffleKind::up           ? "__shfl_up_sync"
                                                                                : "__shfl_down_sync";

template <class T>
struct Shuffled {
  T value;
  unsigned from;
  T result;
};
template <class T>
void combine_shuffle(void* const* operands, uint32_t lanes) {
  for_lanes(lanes, [&](int to) {
    auto& operand = *static_cast<Shuffled<T>*>(operands[to]);
    operand.result = static_cast<Shuffled<T>*>(operands[operand.from])->value;
  });
}
/// One object for each function and element type: lanes that mix them are told apart by its address.
template <ShuffleKind kind, class T>
inline constexpr WarpOperation kShuffle{kShuffleName<kind>, combine_shuffle<T>};

/// The lane that `lane` reads; itself where that would leave its segment of `width` lanes, as the CUDA guide says.
template <ShuffleKind kind>
unsigned source_lane(unsigned lane, unsigned argument, unsigned width) {
  const unsigned begin = lane / width * width;
  if constexpr (kind == ShuffleKind::index) return begin + argument % width;
  if constexpr (kind == ShuffleKind::exclusive_or) return (lane ^ argument) < begin + width ? lane ^ argument : lane;
  if constexpr (kind == ShuffleKind::up) return lane >= begin + argument ? lane - argument : lane;
  return lane + argument < begin + width ? lane + argument : lane;
}

/// Errors  a width that is no power of two up to 32; a lane that reads from one outside the mask.
void check_shuffle(const char* name, uint32_t mask, unsigned from, int width);

template <ShuffleKind kind, class T>
T shuffle(uint32_t mask, T value, unsigned argument, int width) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "shuffles take 4- and 8-byte numbers");
  Shuffled<T> operand{value, source_lane<kind>(lane(), argument, width > 0 ? width : 1), value};
  check_shuffle(kShuffleName<kind>, mask, operand.from, width);
  warp_operation(kShuffle<kind, T>, mask, &operand);
  return operand.result;
}

struct Vote {
  bool predicate;
  uint32_t result;
};
inline void combine_votes(void* const* operands, uint32_t lanes) {
  uint32_t result = 0;
  for_lanes(lanes, [&](int lane) { result |= uint32_t{static_cast<Vote*>(operands[lane])->predicate} << lane; });
  for_lanes(lanes, [&](int lane) { static_cast<Vote*>(operands[lane])->result = result; });
}
inline constexpr WarpOperation kBallot{"__ballot_sync", combine_votes};
inline constexpr WarpOperation kAny{"__any_sync", combine_votes};
inline constexpr WarpOperation kAll{"__all_sync", combine_votes};

inline uint32_t vote(const WarpOperation& operation, uint32_t mask, bool predicate) {
  Vote operand{predicate, 0};
  warp_operation(operation, mask, &operand);
  return operand.result;
}

template <class T>
struct Reduced {
  T value;
};
template <class T, class Rule>
void combine_reduction(void* const* operands, uint32_t lanes) {
  T result = static_cast<Reduced<T>*>(operands[std::countr_zero(lanes)])->value;
  for_lanes(lanes & (lanes - 1), [&](int lane) { result = Rule()(result, static_cast<Reduced<T>*>(operands[lane])->value); });
  for_lanes(lanes, [&](int lane) { static_cast<Reduced<T>*>(operands[lane])->value = result; });
}
struct Sum {
  static constexpr const char* kName = "__reduce_add_sync";
  unsigned operator()(unsigned a, unsigned b) const { return a + b; }
};
struct Largest {
  static constexpr const char* kName = "__reduce_max_sync";
  template <class T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Smallest {
  static constexpr const char* kName = "__reduce_min_sync";
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
template <class T, class Rule>
inline constexpr WarpOperation kReduction{Rule::kName, combine_reduction<T, Rule>};

template <class Rule, class T>
T reduce(uint32_t mask, T value) {
  Reduced<T> operand{value};
  warp_operation(kReduction<T, Rule>, mask, &operand);
  return operand.value;
}

}  // namespace sluice::emulation

inline void __syncwarp(unsigned mask = 0xffffffffu) { sluice::emulation::warp_operation(sluice::emulation::kSyncWarp, mask, nullptr); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = warpSize) {
  return sluice::emulation::shuffle<sluice::emulation::ShuffleKind::index>(mask, value, from, width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  return sluice::emulation::shuffle<sluice::emulation::ShuffleKind::exclusive_or>(mask, value, lane_mask, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
  return sluice::emulation::shuffle<sluice::emulation::ShuffleKind::up>(mask, value, distance, width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
  return sluice::emulation::shuffle<sluice::emulation::ShuffleKind::down>(mask, value, distance, width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return sluice::emulation::vote(sluice::emulation::kBallot, mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) { return sluice::emulation::vote(sluice::emulation::kAny, mask, predicate != 0) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return sluice::emulation::vote(sluice::emulation::kAll, mask, predicate == 0) == 0; }
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) { return sluice::emulation::reduce<sluice::emulation::Sum>(mask, value); }
inline int __reduce_add_sync(unsigned mask, int value) {
  return static_cast<int>(sluice::emulation::reduce<sluice::emulation::Sum>(mask, static_cast<unsigned>(value)));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  return sluice::emulation::reduce<sluice::emulation::Largest>(mask, value);
}
inline int __reduce_max_sync(unsigned mask, int value) { return sluice::emulation::reduce<sluice::emulation::Largest>(mask, value); }
inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
  return sluice::emulation::reduce<sluice::emulation::Smallest>(mask, value);
}
inline int __reduce_min_sync(unsigned mask, int value) { return sluice::emulation::reduce<sluice::emulation::Smallest>(mask, value); }

/// Only the calling lane: hardware may answer so at any time, and a kernel that hopes for more is wrong.
inline unsigned __activemask() { return 1u << sluice::emulation::lane(); }
