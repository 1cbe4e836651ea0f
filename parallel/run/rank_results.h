#pragma once
#include "parallel/group/group.h"
#include "parallel/run/executor.h"

namespace sluice::parallel {

/// Makes what a run gave one on all ranks: every rank adds what it alone knows. The trace becomes whole on the root alone.
/// `began`  of the run on this rank, in seconds of the root's clock.
void share(Group& group, const DeviceRanks& ranks, const Program& program, double began, RunResult& result);

}  // namespace sluice::parallel
