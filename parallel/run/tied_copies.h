#pragma once
#include "parallel/group/group.h"
#include "parallel/run/executor.h"

namespace sluice::parallel {

/// Copies what the owner of each tied parameter shows to where else it is used, on other ranks too. `group` is null for one process.
void copy_tied(const layers::Graph& graph, const Topology& topology, const Executor& executor, Group* group);

}  // namespace sluice::parallel
