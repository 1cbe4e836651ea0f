#pragma once
#include "parallel/schedule/search.h"

namespace sluice::parallel {

/// How list scheduling chooses among the actions that could run.
struct ListRule {
  std::vector<bool> splits;       ///< by stage: I and W, else B
  std::vector<double> under_way;  ///< by device: most micro-batches between F and B or I, each stage counting for its share of the device
  std::vector<double> byte_cap;   ///< by device; empty = no cap
  bool forward_first = false;     ///< a forward that is ready goes before a backward that is
  bool shallow_first = false;     ///< among forwards the first stage of the device goes first, else the last
  double patience = 0;            ///< look-ahead: waits for work that is known to arrive within this share of what it could do before
};

/// Runs all devices on clocks, and lets each that is free choose by the rule: backwards release memory and other devices, forwards feed
/// them, weight gradients fill gaps and free memory for forwards. Forwards leave room for the deeper stages of their device, so that a cap
/// stops no micro-batch half-way.
Schedule list_schedule(const StageCosts& costs, const std::vector<int>& device_of_stage, int devices, int micro_batches,
                       const ListRule& rule);

}  // namespace sluice::parallel
