#include "core/error.h"
#include "data/idx.h"

/// Any bytes are an array whose axes say how many there are, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const auto array = sluice::data::parse_idx("input", std::string(reinterpret_cast<const char*>(bytes), size));
    int64_t elements = 1;
    for (const int64_t axis : array.shape) elements *= axis;
    if (static_cast<size_t>(elements) != array.bytes.size()) __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
