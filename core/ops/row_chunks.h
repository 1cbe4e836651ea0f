#pragma once
#include <cstdint>

namespace sluice {

/// Rows of a matrix that a GPU sums into one row of partial sums: few enough that many blocks have work, and so many that the partial sums
/// are small beside the matrix. A constant, so that the order of a sum depends on shapes only.
inline constexpr int64_t kGpuChunkRows = 64;

inline int64_t gpu_row_chunks(int64_t rows) { return (rows + kGpuChunkRows - 1) / kGpuChunkRows; }

}  // namespace sluice
