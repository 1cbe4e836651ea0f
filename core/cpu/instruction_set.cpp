#include "core/cpu/instruction_set.h"

#include <unistd.h>

#include "core/cpu/amx.h"
#include "core/cpu/onednn_library.h"
#include "core/error.h"
#include "core/machine_limits.h"

namespace sluice {

namespace {

#if defined(__x86_64__)
std::string features() {
  std::string names;
  // The built-in function takes literals alone.
#define SLUICE_ADD_FEATURE(name) \
  if (__builtin_cpu_supports(name)) names += names.empty() ? name : " " name;
  SLUICE_ADD_FEATURE("sse4.2")
  SLUICE_ADD_FEATURE("avx")
  SLUICE_ADD_FEATURE("avx2")
  SLUICE_ADD_FEATURE("fma")
  SLUICE_ADD_FEATURE("fma4")
  SLUICE_ADD_FEATURE("avx512f")
  SLUICE_ADD_FEATURE("avx512bw")
  SLUICE_ADD_FEATURE("avx512dq")
  SLUICE_ADD_FEATURE("avx512vl")
  SLUICE_ADD_FEATURE("avx512vnni")
  SLUICE_ADD_FEATURE("avx512bf16")
#undef SLUICE_ADD_FEATURE
  if (has_amx()) names += " amx-bf16";
  return names;
}
#else
std::string features() { return processor_name(); }
#endif

std::string caches() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  constexpr int64_t kKibibyte = 1024;
  const auto size = [](int name) { return join(' ', sysconf(name) / kKibibyte, " KiB"); };
  return ", caches" + size(_SC_LEVEL1_DCACHE_SIZE) + size(_SC_LEVEL2_CACHE_SIZE) + size(_SC_LEVEL3_CACHE_SIZE);
#else
  return "";
#endif
}

std::string make() {
  const std::string onednn = onednn::instruction_set();
  return features() + caches() + (onednn.empty() ? "" : ", oneDNN " + onednn);
}

}  // namespace

const std::string& instruction_set() {
  static const std::string text = make();
  return text;
}

}  // namespace sluice
