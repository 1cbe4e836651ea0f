#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/program/links.h"
#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// What stage `from` sends to stage `to` for each micro-batch, in one transfer.
struct StageTransfer {
  int from = 0, to = 0;
  double bytes = 0;
  bool operator==(const StageTransfer&) const = default;
};

/// What choosing an order needs to know of the stages, one micro-batch. Units: seconds and bytes.
struct StageCosts {
  std::vector<double> forward;                  ///< by stage
  std::vector<double> backward;                 ///< by stage: B in one
  std::vector<double> input_gradient;           ///< by stage; empty: nothing may be split
  std::vector<double> weight_gradient;          ///< by stage; empty: nothing may be split
  std::vector<double> recompute;                ///< by stage; may be empty
  std::vector<double> transfer;                 ///< of a chain, by stage: the activation for the next one, and its gradient; may be empty
  std::vector<double> kept;                     ///< by stage: bytes from F until B, or I; may be empty
  std::vector<double> kept_for_weights;         ///< by stage: bytes from I until W; may be empty
  std::vector<StageTransfer> activations{};     ///< to later stages, after F, in the order of sending; none, nor gradients: a chain
  std::vector<StageTransfer> gradients{};       ///< to earlier stages, after B or I, in the order of sending
  Links links{};                                ///< between the devices; infinitely fast without latency by default
  std::vector<double> step{};                   ///< by stage: the optimizer, once a mini-batch; may be empty
  NormBytes norm{};                             ///< on the wire
  std::vector<StageTransfer> tied_gradients{};  ///< of tied parameters to earlier stages, once a mini-batch, before the norm
  std::vector<StageTransfer> tied_weights{};    ///< to later stages, after the optimizer

  bool can_split() const { return !input_gradient.empty() && !weight_gradient.empty(); }
};

/// A stage's entry of one of the lists; 0 in a list that is empty.
inline double cost_at(const std::vector<double>& costs, int stage) { return costs.empty() ? 0 : costs[stage]; }
/// What sums of seconds and bytes may differ by, as rounding goes.
inline constexpr double kRounding = 1e-9;

/// Who waits for whom: the forward of a stage for all activations sent to it, its backward for all gradients.
struct StageTransfers {
  std::vector<StageTransfer> activations, gradients;  ///< of one sender in the order of sending
};

/// The transfers of the stages, those of a chain where none are given.
StageTransfers transfers_of(const StageCosts& costs, int stages);

/// Errors  UsageError for a transfer that leads nowhere or the wrong way, a list that is not of `stages` entries (or empty where it may be),
///         and costs that are negative or not finite.
void require_costs(const StageCosts& costs, int stages, bool splits);

/// What an order of work comes to.
struct ScheduleTiming {
  double seconds = 0;              ///< makespan of one step, without norm and optimizer
  double step_seconds = 0;         ///< with them, where there are backwards
  double bubble = 0;               ///< 1 - mean busy seconds of a device / seconds
  std::vector<double> peak_bytes;  ///< by device
};

/// Runs a schedule on a Clock: as long as `simulate` takes for its program with the costs of chain_of, at most longer with tied parameters.
/// Errors  UsageError when costs are missing or the order waits in a circle.
ScheduleTiming time_schedule(const Schedule& schedule, const StageCosts& costs);

struct FoundSchedule {
  Schedule schedule;  ///< named "auto"
  ScheduleTiming timing;
  std::string source;  ///< the named schedule or the rule that it comes from
  bool fits = true;    ///< false: no order keeps to the byte cap, and this one comes nearest
};

/// The `auto` schedule: the fastest order found by list scheduling with look-ahead, under several rules of priority, numbers of
/// micro-batches under way, and whole or split backwards; never slower than a named schedule of the same placement that keeps to the cap.
/// `byte_cap` is by device; empty = no cap. `watch` is called before every candidate, and what it throws ends the search. Deterministic.
/// Cost    some dozens of runs over all actions.
/// Errors  UsageError when costs are missing, micro_batches < 1, or a device has no stage.
FoundSchedule search_schedule(const StageCosts& costs, const std::vector<int>& device_of_stage, int micro_batches,
                              const std::vector<double>& byte_cap = {}, const std::function<void()>& watch = {});

}  // namespace sluice::parallel
