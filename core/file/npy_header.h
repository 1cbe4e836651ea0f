#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"

namespace sluice {

/// What a .npy file says of its array.
struct NpyHeader {
  DType dtype = DType::f32;
  Shape shape;
  bool is_fortran_order = false;  ///< the first axis is the innermost one in the file
  int64_t data_begin = 0;         ///< byte where the elements start

  int64_t bytes() const { return shape.elements() * static_cast<int64_t>(size_of(dtype)); }
};

/// Bytes of a file from which the length of its header follows.
inline constexpr int64_t kNpyStartBytes = 12;

/// Where the elements of a file of `file_bytes` bytes begin, from its first kNpyStartBytes bytes: what precedes them is all within the
/// file, and not more than a MiB.
/// Errors  DataError naming file and byte.
int64_t npy_data_begin(std::string_view start, int64_t file_bytes, const std::string& file);

/// Reads the header of a file of `file_bytes` bytes, of which `start` holds at least the header, and proves that what it describes are
/// exactly the bytes that follow. Nothing is allocated by what the header claims.
/// Dtypes  <f4, <f8, <i4, <i8, |u1, and |b1 as u8.
/// Errors  DataError naming file and byte, and how to save an array that can be read.
/// Source  the .npy format, versions 1.0, 2.0 and 3.0: numpy.lib.format.
NpyHeader parse_npy_header(std::string_view start, int64_t file_bytes, const std::string& file);

/// The header of a row-major array, in version 1.0. Dtypes  all but bf16, for which NumPy has no name.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace sluice
