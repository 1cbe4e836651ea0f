#pragma once
#include <string>

#include "core/file/byte_reader.h"
#include "core/file/npy_header.h"
#include "core/tensor.h"

namespace sluice {

/// The array in a file of NumPy's np.save, row-major; one in Fortran order is turned round.
/// Dtypes  f32, f64, i32, i64, u8, and booleans as u8.
/// Errors  DataError naming file and byte, and what to do in Python, for any other file.
Tensor read_npy(const std::string& path, const DevicePtr& device = default_device());

/// The same from anything that holds such a file of `bytes` bytes; `name` begins messages.
Tensor read_npy(const ByteReader& read, int64_t bytes, const std::string& name, const DevicePtr& device);

/// Writes a file that np.load reads, whole or not at all (write_atomically).
/// Dtypes  all; bf16, for which NumPy has no name, is written as f32.
/// Errors  ResourceError when it cannot be written.
void write_npy(const std::string& path, const Tensor& x);

/// The tensor as write_npy and write_npz write its elements: row-major, on the host, and in f32 for bf16.
Tensor npy_elements(const Tensor& x);

}  // namespace sluice
