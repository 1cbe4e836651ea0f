#pragma once
#include <string>
#include <vector>

#include "cli/config.h"
#include "parallel/plan.h"

/// What can be known before a training begins, so that nothing is refused after it.
namespace sluice::cli {

/// Throws unless the devices' budgets hold a step, whose prediction is given, and a validation, and this machine's memory holds all of its
/// CPU devices together. `here`: the devices of this machine.
/// Errors  OutOfMemory naming the device, the bytes and the cure.
void require_memory(const layers::Graph& graph, const parallel::Plan& plan, const Optimizer& optimizer, const Settings& settings,
                    const parallel::Prediction& prediction, const std::vector<int>& here);

}  // namespace sluice::cli
