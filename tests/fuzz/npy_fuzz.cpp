#include "core/error.h"
#include "core/file/npy_header.h"

/// Any bytes are an array whose shape and dtype say how many bytes follow the header, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  try {
    const std::string_view file(reinterpret_cast<const char*>(bytes), size);
    const auto header = sluice::parse_npy_header(file, static_cast<int64_t>(size), "input");
    if (header.data_begin + header.bytes() != static_cast<int64_t>(size)) __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
