#pragma once
#include "parallel/group/group.h"
#include "parallel/run/executor.h"

namespace sluice::parallel {

/// Copies what the owners of each parameter show to where else it is used: of a tied one to its other stages, of one that replicas have
/// parts of to all replicas; on other ranks too. `group` is null for one process.
void share_weights(const layers::Graph& graph, const Executor& executor, Group* group);

}  // namespace sluice::parallel
