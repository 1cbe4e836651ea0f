#include "parallel/group/job.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "parallel/group/mpi_group.h"
#include "parallel/group/mpi_plugin.h"
#include "parallel/group/mpi_try.h"

namespace sluice::parallel {

namespace {

/// What a launcher says to the processes that it starts.
struct Launcher {
  std::string name;
  int size = 1;                      ///< 0: it does not say
  std::vector<std::string> plugins;  ///< of MPI libraries that it can start, best first
};

/// A number in the environment; nothing where there is none.
std::optional<int> number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text) return std::nullopt;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

/// The number of tasks where srun started this process, and not just a shell of the allocation.
std::optional<int> srun_tasks() {
  if (!number("SLURM_PROCID") || !number("SLURM_STEP_ID")) return std::nullopt;
  const auto tasks = number("SLURM_STEP_NUM_TASKS");
  return tasks ? tasks : number("SLURM_NTASKS");
}

/// The innermost launcher comes first: mpirun starts its daemons with srun, which all leave their variables.
Launcher find_launcher() {
  if (const auto size = number("OMPI_COMM_WORLD_SIZE")) return {"Open MPI's mpirun", *size, {"openmpi"}};
  if (const auto size = number("PMI_SIZE")) return {"the PMI launcher (MPICH's mpiexec, or srun)", *size, {"mpich", "openmpi"}};
  if (number("PMIX_RANK")) return {"the PMIx launcher", srun_tasks().value_or(0), {"openmpi", "mpich"}};
  if (const auto tasks = srun_tasks()) return {"srun", *tasks, {"openmpi", "mpich"}};
  return {"no launcher", 1, {}};
}

}  // namespace

int launched_ranks() { return find_launcher().size; }

std::unique_ptr<Group> join_job(size_t piece_bytes) {
  const Launcher launcher = find_launcher();
  if (launcher.size == 1) return make_single_group();
  const MpiLibrary& library = load_mpi_plugin(launcher.plugins);
  int rank = 0, size = 0, tag_limit = 0;
  mpi_try(library, library.start(&rank, &size, &tag_limit), "MPI_Init_thread");
  if (launcher.size != 0 && size != launcher.size) {
    char version[256] = {};
    library.version(version, sizeof version);
    if (size == 1) library.finish();
    throw UsageError(
        join("mpi: needed the ", launcher.size, " ranks that ", launcher.name, " started, got a world of ", size, " from ", version,
             ": the launcher does not belong to this MPI, or srun has no PMIx or matching PMI plugin, which makes every process "
             "rank 0 of 1; use srun --mpi=pmix, or the mpirun of this MPI"));
  }
  if (size == 1) {
    library.finish();
    return make_single_group();
  }
  return std::make_unique<MpiGroup>(library, rank, size, tag_limit, piece_bytes == 0 ? kMpiPieceBytes : piece_bytes);
}

}  // namespace sluice::parallel
