#include "data/permutation.h"

#include "core/error.h"
#include "core/random.h"

namespace sluice::data {

Permutation::Permutation(int64_t size, uint64_t key) : size_(static_cast<uint64_t>(size)), key_(key) {
  require(size >= 0, "permutation: needs a size >= 0, got ", size);
  while (half_bits_ < 31 && (uint64_t{1} << 2 * half_bits_) < size_) ++half_bits_;
}

uint64_t Permutation::network(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint32_t round = 0; round < 8; ++round) {
    const auto words =
        philox({static_cast<uint32_t>(right), round, 0, 0}, {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
    const uint64_t mixed = (left ^ words[0]) & mask;
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator[](int64_t index) const {
  uint64_t value = network(static_cast<uint64_t>(index));
  while (value >= size_) value = network(value);
  return static_cast<int64_t>(value);
}

}  // namespace sluice::data
