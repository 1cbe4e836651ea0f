#include "parallel/group/mpi_plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "mpi_plugin_folders.h"

namespace sluice::parallel {

namespace {

std::vector<std::string> places(const std::vector<std::string>& names) {
  if (const char* const file = std::getenv("SLUICE_MPI_PLUGIN"); file && *file) return {file};
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::string> files;
  for (const std::string& name : names)
    for (const std::filesystem::path& folder : {program, program.parent_path() / "lib" / "sluice",
                                                std::filesystem::path(kInstalledMpiPlugins), std::filesystem::path(kBuiltMpiPlugins)})
      files.push_back(folder / ("libsluice-" + name + ".so"));
  return files;
}

}  // namespace

const MpiLibrary& load_mpi_plugin(const std::vector<std::string>& names) {
  std::string reasons;
  for (const std::string& file : places(names)) {
    // Open MPI's own components look for its symbols among those of the whole program.
    void* const plugin = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* const function = plugin ? dlsym(plugin, kMpiLibraryFunction) : nullptr;
    if (function) return *reinterpret_cast<MpiLibraryFunction>(function)();
    reasons += join(reasons.empty() ? "" : "; ", dlerror());
  }
  throw UsageError(join("mpi: a launcher of MPI started this process, which needs a plugin for that MPI (", names.front(), "), got none (",
                        reasons, "); install libopenmpi-dev or libmpich-dev and build Sluice with -Dmpi=enabled"));
}

}  // namespace sluice::parallel
