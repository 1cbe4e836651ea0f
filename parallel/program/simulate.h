#pragma once
#include <vector>

#include "parallel/program/links.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

/// What the simulation needs to know of a device and a model. Units: seconds and bytes.
struct SimulationCosts {
  std::vector<double> forward;            ///< by stage, one micro-batch
  std::vector<double> backward;           ///< by stage; split schedules use input_gradient and weight_gradient instead
  std::vector<double> input_gradient;     ///< by stage; may be empty when nothing is split
  std::vector<double> weight_gradient;    ///< by stage; may be empty when nothing is split
  std::vector<double> recompute;          ///< by stage; may be empty when nothing is rematerialized
  std::vector<double> step;               ///< by device; may be empty (free)
  std::vector<double> value_bytes;        ///< by value, one micro-batch; may be empty (free transfers)
  Links links{};                          ///< between devices; infinitely fast without latency by default
  NormBytes norm{};                       ///< on the wire
  std::vector<double> shard_gradients{};  ///< by stage; may be empty (free)
  std::vector<double> fold_shards{};      ///< by stage; may be empty (free)
  std::vector<TiedBytes> tied{};          ///< by tied parameter; may be empty (their latency alone)
};

struct SimulatedAction {
  int device;
  int index;     ///< position in the device's list
  double start;  ///< seconds
  double end;
};

struct Timeline {
  std::vector<SimulatedAction> actions;  ///< in the order of their starts, ties by device
  double seconds = 0;                    ///< makespan
  std::vector<double> busy;              ///< by device: seconds of compute
  double bubble = 0;                     ///< 1 - mean(busy) / makespan; 0 when nothing ran
  double span_bubble = 0;                ///< the most idle seconds of a device between its first and its last compute
};

/// Runs a verified program on a Clock alone.
/// Errors  UsageError when costs are missing for an action of the program, or the program deadlocks.
Timeline simulate(const Program& program, const SimulationCosts& costs);

}  // namespace sluice::parallel
