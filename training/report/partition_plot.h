#pragma once
#include <cstdint>
#include <vector>

#include "parallel/program/partition.h"
#include "parallel/program/topology.h"
#include "training/report/svg.h"

namespace sluice::training {

/// A model and how it is cut.
struct CutModel {
  const parallel::Topology& topology;
  const parallel::Partition& partition;
  std::vector<int64_t> parameters;  ///< by node
  std::vector<double> seconds;      ///< by node: forward and backward of a micro-batch
};

/// The nodes in order, coloured by stage, with arcs for values that pass over nodes; then the stages' shares of time and parameters as
/// bars of one length, in which a balanced cut has equal parts.
Svg partition_plot(const CutModel& model);

}  // namespace sluice::training
