#pragma once
#include <string>

#include "autograd/optim/optimizer.h"
#include "cli/config.h"
#include "layers/graph.h"

namespace sluice::cli {

/// Prints what ways of sharing the training among its devices take (parallel/plan/compare.h): over the link that the config names, or over
/// several for devices that are not here; also as JSON to `json`, "-" for standard output alone, empty for none. Returns the exit code, 4 when no layout fits.
int compare(const layers::Graph& graph, const Settings& settings, const Optimizer& optimizer, const std::string& json);

}  // namespace sluice::cli
