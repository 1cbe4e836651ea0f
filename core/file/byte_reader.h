#pragma once
#include <cstddef>
#include <functional>

namespace sluice {

/// The next bytes of a file, or of a part of one: returns how many came, fewer than wanted only at the end.
/// Errors  DataError when they cannot be read.
using ByteReader = std::function<size_t(void* into, size_t bytes)>;

}  // namespace sluice
