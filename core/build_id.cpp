#include "core/build_id.h"

#include "build_config.h"
#include "core/cpu/onednn_library.h"
#include "core/error.h"
#include "core/file/file.h"
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

namespace sluice {

namespace {

/// Its exp and log serve kernels.
std::string c_library() {
#if defined(__GLIBC__)
  return join("glibc ", gnu_get_libc_version());
#else
  return "another C library";
#endif
}

std::string make() {
  const std::string onednn = onednn::version();
  return join("sluice ", build::version, ", compiler ", __VERSION__, ", ", c_library(), ", ", onednn.empty() ? "no oneDNN" : onednn,
              ", program ", summarize_file("/proc/self/exe").hash);
}

}  // namespace

const std::string& build_id() {
  static const std::string id = make();
  return id;
}

}  // namespace sluice
