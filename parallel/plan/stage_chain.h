#pragma once
#include <vector>

#include "parallel/plan/stage_cost.h"
#include "parallel/program/dataflow.h"
#include "parallel/program/links.h"
#include "parallel/program/simulate.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

/// The stages as schedules are timed on them. Who waits for whom is the model's Dataflow: a value goes straight to each stage that reads
/// it, and gradients come back from those that make any.
StageCosts chain_of(const Topology& topology, const ModelCost& model, const Partition& partition, const std::vector<StageCost>& stages,
                    const Links& links);

/// The costs of segments as those of the stages that they are cut from, `counts` segments each.
StageCosts whole_chain(const StageCosts& segments, const std::vector<int>& counts);

/// The costs with every device's actions as many times longer as `factors` say, one entry a device.
StageCosts slowed(StageCosts chain, const std::vector<int>& device_of_stage, const std::vector<double>& factors);

/// What a program of this layout takes, action by action.
/// `peaks`  bytes by device: the more, the longer its actions take (Crowding).
SimulationCosts simulation_costs(const Layout& layout, const ModelCosts& model, const Links& links, const std::vector<int64_t>& peaks);

}  // namespace sluice::parallel
