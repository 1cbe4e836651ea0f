#include "core/cuda/cudnn_library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>

#include "core/cuda/open_library.h"
#include "library_folders.h"

namespace sluice::cudnn {

namespace {

constexpr const char* kFile = "libcudnn.so.9";
constexpr const char* kCure =
    "install cuDNN 9 (pip install nvidia-cudnn-cu12 or -cu13 before Meson configures), or add its folder to LD_LIBRARY_PATH";
constexpr size_t kOldest = 90800;  ///< the first in which engines are asked for by properties of a device

std::vector<std::string> folders() {
  std::vector<std::string> all;
  for (const char* folder : kLibraryFolders)
    if (*folder) all.emplace_back(folder);
  return all;
}

/// With it cuDNN compiles attention and what else it fuses. cuDNN asks for it by its name, and so finds it where we did.
void open_compiler() {
  const std::string name = join("libnvrtc.so.", CUDART_VERSION / 1000);
  if (std::string reason; !open_library(name, folders(), reason))
    std::fprintf(stderr, "sluice: warning: cuDNN has no %s (%s): what it would compile runs by Sluice's own kernels; %s\n", name.c_str(),
                 reason.c_str(),
                 "install nvrtc (pip install nvidia-cuda-nvrtc before Meson configures), or add its folder to LD_LIBRARY_PATH");
}

struct Loaded {
  Library library{};
  std::string missing;

  Loaded() {
    std::string reason;
    void* const file = open_library(kFile, folders(), reason);
    if (!file) {
      missing = join("this machine has no usable ", kFile, " (", reason, "); ", kCure);
      return;
    }
    bool complete = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
      complete = complete && function;
    };
#define SLUICE_FIND(name) find(library.name, "cudnn" #name)
    SLUICE_FIND(GetVersion);
    SLUICE_FIND(GetErrorString);
    SLUICE_FIND(GetLastErrorString);
    SLUICE_FIND(Create);
    SLUICE_FIND(Destroy);
    SLUICE_FIND(SetStream);
    SLUICE_FIND(BackendCreateDescriptor);
    SLUICE_FIND(BackendDestroyDescriptor);
    SLUICE_FIND(BackendSetAttribute);
    SLUICE_FIND(BackendGetAttribute);
    SLUICE_FIND(BackendFinalize);
    SLUICE_FIND(BackendExecute);
#undef SLUICE_FIND
    if (!complete || library.GetVersion() < kOldest) {
      missing = join(kFile, " of this machine is older than 9.8; install a newer cuDNN");
      return;
    }
    open_compiler();
  }
};

const Loaded& loaded() {
  static const Loaded once;
  return once;
}

}  // namespace

const Library* library() { return loaded().missing.empty() ? &loaded().library : nullptr; }
std::string library_missing_reason() { return loaded().missing; }

}  // namespace sluice::cudnn
