// The end of a group over MPI.
#include <future>
#include <memory>

#include "parallel/group/mpi_group.h"
#include "parallel/group/mpi_try.h"

namespace sluice::parallel {

/// Two barriers: heartbeats go on until all are at the first, and none is on its way when all are at the second.
void MpiGroup::close(double seconds) {
  const auto deadline = deadline_in(seconds);
  const auto is_idle = [&] { return with_mpi([&] { return traffic_.under_way() == 0 && control_.is_idle(); }); };
  failure_.check();
  require<CommError>(wait_until(seconds, [&] { return with_mpi([&] { return traffic_.under_way() == 0; }); }), "group: rank ", rank_,
                     " needed the end of all its messages within ", seconds,
                     " s to close, got some that the other ranks did not send or receive");
  meet(deadline, seconds);
  heartbeats_.set_watchdog(0);
  with_mpi([&] { sends_heartbeats_ = false; });
  require<CommError>(wait_until(seconds_until(deadline), is_idle), "group: rank ", rank_,
                     " needed all ranks to take its last messages within ", seconds, " s, got no answer; allow more time");
  meet(deadline, seconds);
  with_mpi([&] { has_ended_ = true; });
  finish(deadline);
}

void MpiGroup::meet(SteadyClock::time_point deadline, double seconds) {
  void* request = nullptr;
  with_mpi([&] { mpi_try(library_, library_.barrier(&request), "MPI_Ibarrier"); });
  const auto is_over = [&] {
    return with_mpi([&] {
      int state = kUnderWay;
      size_t ignored = 0;
      mpi_try(library_, library_.test(request, &state, &ignored), "MPI_Ibarrier");
      return state != kUnderWay;
    });
  };
  require<CommError>(wait_until(seconds_until(deadline), is_over), "group: rank ", rank_, " needed all ranks to close within ", seconds,
                     " s, got not all of them; see what they do, or allow more time");
}

/// MPICH has been seen to hang in MPI_Finalize (openucx/ucx#8738): all work is done by then, so that the process may end without.
void MpiGroup::finish(SteadyClock::time_point deadline) {
  const auto ended = std::make_shared<std::promise<void>>();
  std::thread([&library = library_, ended] {
    library.finish();
    ended->set_value();
  }).detach();
  ended->get_future().wait_until(deadline);
}

}  // namespace sluice::parallel
