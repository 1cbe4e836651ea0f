#pragma once
#include <string>
#include <vector>

#include "autograd/optim/optimizer.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "parallel/plan/profile.h"
#include "parallel/plan/search_watch.h"

namespace sluice::parallel {

/// What one node does, as a meta device counts it.
struct NodeCount {
  NodeTimes times;             ///< on the meta device's clock
  std::string work;            ///< names inputs, parameters, recorded ops and their operations: nodes of equal work take equal times
  double accumulation = 0;     ///< seconds on that clock: adds the gradients of its parameters to those of another micro-batch
  int64_t owned_elements = 0;  ///< of the parameters that the optimizer changes for this node
};

/// Counts every node for `samples` samples on `device`, a meta device, as one stage of all nodes runs it: its gradient comes in the form in
/// which the nodes behind leave it.
/// Errors  UsageError when an input of the graph has no known shape; what a node throws, with its name. SearchTimeOver of `watch`.
std::vector<NodeCount> count_nodes(const layers::Graph& graph, int64_t samples, const DevicePtr& device, Precision precision,
                                   const Optimizer& optimizer, SearchWatch* watch = nullptr);

}  // namespace sluice::parallel
