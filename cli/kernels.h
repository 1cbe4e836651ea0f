#pragma once
#include <string>

#include "autograd/optim/optimizer.h"
#include "cli/config.h"
#include "layers/graph.h"

namespace sluice::cli {

/// Prints where a training step of the whole model on one device goes, by kind of kernel (parallel/plan/kernel_profile.h): measured on a
/// device of this machine, on samples that are made up, counted on one that is described, at the efficiencies of its file; also as JSON to
/// `json`, "-" for standard output alone, empty for none. Returns the exit code.
int kernels(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer, const std::string& device,
            const std::string& json);

}  // namespace sluice::cli
