#pragma once
#include <cstdint>

namespace sluice::data {

/// A shuffled order of 0..size-1, a pure function of (key, size) that stores nothing: element i comes from a Feistel network over the
/// next power of four, walked until it falls below `size`.
/// Each element comes to each place about as often as to any other, but the orders of few elements are not all equally likely: a network of so
/// few bits has not enough functions. Over many keys an order of 5 elements came 0.86 to 1.19 times as often as each should, and of 16, 64, 256,
/// ... elements only even permutations come. Another network would change the order that a checkpoint goes on with, of which it keeps nothing
/// but key and size.
/// Threads  any.
/// Cost    8 rounds of Philox a walk, at most 4 walks on average.
/// Source  Black and Rogaway 2002, "Ciphers with arbitrary finite domains" (cycle walking).
class Permutation {
 public:
  /// Errors  UsageError for size < 0.
  Permutation(int64_t size, uint64_t key);
  /// 0 <= index < size.
  int64_t operator[](int64_t index) const;

 private:
  uint64_t network(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  int half_bits_ = 1;
};

}  // namespace sluice::data
