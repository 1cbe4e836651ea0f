#pragma once
#include <memory>

#include "parallel/group/group.h"

namespace sluice::parallel {

/// The number of ranks that the launcher says it has started; 1 without one, 0 where it does not say.
int launched_ranks();

/// The job that this process was started in: by mpirun or mpiexec, or by srun. Without one of them, or for a job of one process, a single
/// group; MPI is not even loaded then. Call it once, on the main thread, before other threads start.
/// `piece_bytes`  into how large pieces long messages are cut, equal on all ranks; 0: as large as MPI can.
/// Errors  UsageError when this build has no plugin for that launcher's MPI, or when MPI and the launcher differ on the number of ranks;
///         CommError when MPI does not start.
std::unique_ptr<Group> join_job(size_t piece_bytes = 0);

}  // namespace sluice::parallel
