#include "core/cuda/nccl_library.h"

#include <dlfcn.h>

#include <cstdio>

#include "core/cuda/nccl_version.h"
#include "core/cuda/open_library.h"
#include "library_folders.h"

namespace sluice::nccl {

namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr const char* kCure =
    "install NCCL on every host (pip install nvidia-nccl-cu12 or -cu13 before Meson configures), or add its folder to LD_LIBRARY_PATH";

/// Whether the file has them all.
bool fill(Library& library, void* file) {
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
    complete = complete && function;
  };
#define SLUICE_FIND(name) find(library.name, "nccl" #name)
  SLUICE_FIND(GetVersion);
  SLUICE_FIND(GetErrorString);
  SLUICE_FIND(GetLastError);
  SLUICE_FIND(GetUniqueId);
  SLUICE_FIND(CommInitRankConfig);
  SLUICE_FIND(CommDestroy);
  SLUICE_FIND(CommGetAsyncError);
  SLUICE_FIND(GroupStart);
  SLUICE_FIND(GroupEnd);
  SLUICE_FIND(Send);
  SLUICE_FIND(Recv);
#undef SLUICE_FIND
  return complete;
}

}  // namespace

Loaded load(const std::string& file, const std::vector<std::string>& folders) {
  Loaded result;
  std::string reason;
  void* const opened = open_library(file, folders, reason);
  if (!opened) {
    result.missing = join("this machine has no usable ", file, " (", reason, "); ", kCure);
    return result;
  }
  const bool complete = fill(result.library, opened);
  int version = 0;
  if (result.library.GetVersion && result.library.GetVersion(&version) == ncclSuccess) result.version = version_text(version);
  result.missing = version_fault(version);  // first: an old library lacks functions because it is old
  if (result.missing.empty() && !complete)
    result.missing = join(file, " of version ", result.version, " lacks functions of NCCL, so it is another library or damaged; ", kCure);
  if (const std::string warning = version_warning(version); !warning.empty())
    std::fprintf(stderr, "sluice: warning: %s\n", warning.c_str());
  return result;
}

const Loaded& loaded() {
  static const Loaded once = [] {
    std::vector<std::string> folders;
    for (const char* folder : kLibraryFolders)
      if (*folder) folders.emplace_back(folder);
    return load(kFile, folders);
  }();
  return once;
}

}  // namespace sluice::nccl
