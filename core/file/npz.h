#pragma once
#include <map>
#include <string>

#include "core/tensor.h"

namespace sluice {

/// The arrays in a file of NumPy's np.savez or np.savez_compressed, by name. Dtypes  as read_npy.
/// Errors  DataError naming file, array and byte; UsageError in a build without libzip.
std::map<std::string, Tensor> read_npz(const std::string& path, const DevicePtr& device = default_device());

/// Writes a file that np.load reads, whole or not at all (write_atomically), uncompressed: equal tensors give equal bytes. Dtypes  as
/// write_npy.
/// Errors  ResourceError when it cannot be written; UsageError for a name that is not UTF-8, has a zero byte or is longer than 65531 bytes,
///         and in a build without libzip.
void write_npz(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace sluice
