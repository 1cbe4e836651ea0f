#pragma once
#include <chrono>

#include "parallel/group/mpi_library.h"

namespace sluice::parallel {

/// An MPI whose ranks are in one program, so that the group over it is tested under the thread sanitizer and where no MPI is installed. A
/// message is read when its receive is there. There is one world at a time.
class FakeMpi {
 public:
  static constexpr int kMostRanks = 4;
  static constexpr int kBroken = 99;  ///< the error of a library that has failed

  explicit FakeMpi(int ranks);
  ~FakeMpi();
  FakeMpi(const FakeMpi&) = delete;
  FakeMpi& operator=(const FakeMpi&) = delete;

  /// What the plugin of that rank would give.
  const MpiLibrary& library(int rank) const;
  /// From now on every call of any rank fails.
  void fail();
  /// How long MPI_Finalize takes.
  static void set_finish_time(std::chrono::milliseconds time);
};

}  // namespace sluice::parallel
