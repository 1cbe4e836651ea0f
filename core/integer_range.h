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

}  // namespace sluice
