#pragma once
// A value and its index as one key: keys of a row in ascending order are its values in the order of sort(), equal ones by their index.
#include <bit>

#include "core/dtype.h"
#include "core/host_device.h"

namespace sluice::kernels {

/// Of values of 8 bytes.
struct WideSortKey {
  int64_t value, index;
  SLUICE_HD friend bool operator>(const WideSortKey& a, const WideSortKey& b) {
    return a.value > b.value || (a.value == b.value && a.index > b.index);
  }
  SLUICE_HD friend bool operator<(const WideSortKey& a, const WideSortKey& b) { return b > a; }
};

/// Values of up to 4 bytes share 8 with their index.
template <class T>
using SortKey = std::conditional_t<sizeof(T) <= 4, int64_t, WideSortKey>;

/// Behind all keys of values.
template <class Key>
SLUICE_HD Key last_sort_key() {
  if constexpr (std::is_same_v<Key, int64_t>)
    return INT64_MAX;
  else
    return {INT64_MAX, INT64_MAX};
}

/// An integer in the order of the values: NaN is the largest, and -0 equals 0.
template <class T>
SLUICE_HD int64_t ordered(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    using C = compute_t<T>;
    using Bits = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
    constexpr Bits kLargest = sizeof(C) == 4 ? INT32_MAX : INT64_MAX;
    const C number = static_cast<C>(value);
    if (number != number) return kLargest;
    if (number == 0) return 0;
    const Bits bits = std::bit_cast<Bits>(number);
    return bits < 0 ? bits ^ kLargest : bits;
  }
}

template <class T>
SLUICE_HD SortKey<T> sort_key(T value, int64_t index, bool descending) {
  const int64_t order = descending ? ~ordered(value) : ordered(value);
  if constexpr (sizeof(T) <= 4)
    return static_cast<int64_t>(static_cast<uint64_t>(order) << 32 | static_cast<uint64_t>(index));
  else
    return {order, index};
}

SLUICE_HD inline int64_t index_of(int64_t key) { return key & 0xffffffff; }
SLUICE_HD inline int64_t index_of(const WideSortKey& key) { return key.index; }

}  // namespace sluice::kernels
