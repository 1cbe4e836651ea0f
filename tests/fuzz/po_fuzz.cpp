#include "core/error.h"
#include "core/utf8.h"
#include "data/parallel/gettext.h"

/// Any text is translated entries of well-formed UTF-8, or a DataError.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace sluice::data;
  try {
    size_t text = 0;
    for (const auto& entry : parse_po("input", {reinterpret_cast<const char*>(bytes), size})) {
      text += entry.source.size() + entry.target.size();
      const bool is_sound = !entry.source.empty() && !entry.target.empty() && first_invalid_utf8(entry.source) == std::string::npos &&
                            first_invalid_utf8(entry.target) == std::string::npos;
      if (!is_sound || text > size) __builtin_trap();
    }
  } catch (const sluice::DataError&) {
  }
  return 0;
}
