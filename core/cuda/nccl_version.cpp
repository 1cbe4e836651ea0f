#include "core/cuda/nccl_version.h"

#include "core/error.h"

namespace sluice::nccl {

namespace {

constexpr int kHangs = 22902;  ///< 2.29.3 fixes it (pytorch/pytorch#174338)

}  // namespace

std::string version_text(int version) { return join(version / 10000, '.', version % 10000 / 100, '.', version % 100); }

std::string version_fault(int version) {
  if (version >= kOldestVersion) return "";
  // Before 2.9 a version was written with one digit less.
  const std::string found = version < 10000 ? join(version / 1000, '.', version % 1000 / 100, '.', version % 100) : version_text(version);
  return join("the NCCL of this machine is ", found, ", and Sluice needs ", version_text(kOldestVersion),
              " or newer; install one on every host (pip install nvidia-nccl-cu12 or -cu13 before Meson configures), or put the folder "
              "of a newer libnccl.so.2 first in LD_LIBRARY_PATH");
}

std::string version_warning(int version) {
  if (version != kHangs) return "";
  return join("NCCL ", version_text(version), " can hang, which ", version_text(kHangs + 1), " fixes; install that or a newer one");
}

}  // namespace sluice::nccl
