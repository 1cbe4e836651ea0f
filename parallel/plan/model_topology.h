#pragma once
#include "layers/graph.h"
#include "parallel/program/topology.h"

namespace sluice::parallel {

/// The part of a graph that partitioning and lowering need. Which modules leave out gradients shows in a recording for one sample on a meta
/// device; a module that cannot be recorded is taken to make all of them.
/// Errors  UsageError for a graph without a loss, and a parameter that the loss does not depend on.
Topology topology_of(const layers::Graph& graph);
/// The same of any graph: one without a loss has no gradients.
Topology inference_topology_of(const layers::Graph& graph);

}  // namespace sluice::parallel
