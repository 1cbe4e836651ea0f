#pragma once
#include <utility>

#include "core/dtype.h"

namespace sluice {

/// The least and the largest integer of a dtype that are doubles: 0 and 255 of u8.
inline std::pair<double, double> integer_range(DType integers) {
  switch (integers) {
    case DType::u8:
      return {0, 255};
    case DType::i32:
      return {-0x1p31, 0x1p31 - 1};
    default:
      return {-0x1p63, 0x1p63 - 1024};
  }
}

/// Those of them that a double tells from their neighbours, for what comes as a double and may have been another integer.
inline std::pair<double, double> range_of_numbers(DType integers) {
  return integers == DType::i64 ? std::pair(1 - 0x1p53, 0x1p53 - 1) : integer_range(integers);
}

/// What to do about a number beyond it.
inline const char* cure_of_range(DType integers) {
  return integers == DType::i64 ? "; numbers come as doubles, which are exact below 2^53: tensor(int64_t{...}) has larger ones"
                                : "; take another dtype";
}

}  // namespace sluice
