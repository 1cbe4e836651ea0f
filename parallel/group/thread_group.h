#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "parallel/group/group.h"

namespace sluice::parallel {

/// The ranks of a job as threads of one program, for tests; by rank. A send is read only when its receive is there, which is MPI at its
/// worst: what hangs there in some order of calls hangs here, too. No watchdog: a thread does not vanish. Heartbeats are never old.
std::vector<std::unique_ptr<Group>> make_thread_groups(int ranks);

/// Runs `body` on a thread for each rank and waits for all of them. An error of one aborts the group.
/// Errors  the one of the rank that failed first.
void run_ranks(int ranks, const std::function<void(Group&)>& body);

}  // namespace sluice::parallel
