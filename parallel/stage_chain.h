#pragma once
#include <vector>

#include "parallel/links.h"
#include "parallel/schedule_search.h"
#include "parallel/stage_cost.h"

namespace sluice::parallel {

/// The stages as the chain that schedules are timed on. A value that goes past the next stage counts where it leaves. The latency is the
/// largest between neighbours.
StageCosts chain_of(const Topology& topology, const ModelCost& model, const Partition& partition, const std::vector<StageCost>& stages,
                    const std::vector<int>& device_of_stage, const Links& links);

/// A chain of segments as the chain of the stages that they are cut from, `counts` segments each.
StageCosts whole_chain(const StageCosts& segments, const std::vector<int>& counts);

/// The chain with every device's actions as many times longer as `factors` say, one entry a device.
StageCosts slowed(StageCosts chain, const std::vector<int>& device_of_stage, const std::vector<double>& factors);

}  // namespace sluice::parallel
