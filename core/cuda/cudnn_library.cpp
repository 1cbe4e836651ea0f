#include "core/cuda/cudnn_library.h"

#include <dlfcn.h>

namespace sluice::cudnn {

namespace {

constexpr const char* kFile = "libcudnn.so.9";
constexpr size_t kOldest = 90800;  ///< the first in which engines are asked for by properties of a device

struct Loaded {
  Library library{};
  std::string missing;

  Loaded() {
    void* const file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);  // never closed: handles may live until the program ends
    if (!file) {
      missing = join("this machine has no usable ", kFile, " (", dlerror(), "); install cuDNN 9, or add its folder to LD_LIBRARY_PATH");
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
    if (!complete || library.GetVersion() < kOldest) missing = join(kFile, " of this machine is older than 9.8; install a newer cuDNN");
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
