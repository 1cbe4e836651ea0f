#include "parallel/program/topology.h"

#include <algorithm>

namespace sluice::parallel {

bool Topology::contributes(int node, int value) const {
  return differentiable[value] && has_gradient(node) && std::ranges::find(nodes[node].constants, value) == nodes[node].constants.end();
}

bool Topology::contributes(int node, const Tied& parameter) const {
  return has_gradient(node) && std::ranges::find(parameter.constant_at, node) == parameter.constant_at.end();
}

}  // namespace sluice::parallel
