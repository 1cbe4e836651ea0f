#pragma once
#include "core/error.h"
#include "parallel/group/mpi_library.h"

namespace sluice::parallel {

/// Throws CommError with MPI's own words unless `error` is 0.
inline void mpi_try(const MpiLibrary& library, int error, const char* call) {
  if (error == 0) return;
  char text[512] = {};
  library.explain(error, text, sizeof text);
  throw CommError(join("mpi: ", call, " failed: ", text, "; the launcher's own messages may say more"));
}

}  // namespace sluice::parallel
