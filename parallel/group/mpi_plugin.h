#pragma once
#include <string>
#include <vector>

#include "parallel/group/mpi_library.h"

namespace sluice::parallel {

/// Loads the first plugin of `names` ("openmpi", "mpich") that is there: the file that SLUICE_MPI_PLUGIN names, else that of the program's
/// own folder, of lib/sluice beside it, of the installation, or of the build. It stays loaded for the life of the process.
/// Errors  UsageError with the places and the cure when none can be loaded.
const MpiLibrary& load_mpi_plugin(const std::vector<std::string>& names);

}  // namespace sluice::parallel
