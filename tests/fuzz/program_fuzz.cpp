#include "core/error.h"
#include "parallel/program/program_codec.h"

/// Any bytes are a program that encodes to just these bytes, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace sluice::parallel;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    if (encode(decode_program(text)) != text) __builtin_trap();
  } catch (const sluice::DataError&) {
  }
  return 0;
}
