#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// Stage `to` reads values that stage `from` makes, and perhaps sends gradients of them back. Both occupy the link between their devices.
struct StageLink {
  int from = 0, to = 0;      ///< from < to
  double activation = 0;     ///< seconds on the wire, one micro-batch
  double gradient = 0;       ///< the same of what comes back
  bool has_gradient = true;  ///< something comes back: the backward of `from` waits for that of `to`
};

/// What choosing an order needs to know of the stages, one micro-batch. Units: seconds and bytes.
struct StageCosts {
  std::vector<double> forward;           ///< by stage
  std::vector<double> backward;          ///< by stage: B in one
  std::vector<double> input_gradient;    ///< by stage; empty: nothing may be split
  std::vector<double> weight_gradient;   ///< by stage; empty: nothing may be split
  std::vector<double> recompute;         ///< by stage; may be empty
  std::vector<double> transfer;          ///< of a chain, by stage: the activation and the gradient of its link to the next; may be empty
  std::vector<double> kept;              ///< by stage: bytes from F until B, or I; may be empty
  std::vector<double> kept_for_weights;  ///< by stage: bytes from I until W; may be empty
  double latency = 0;                    ///< of each transfer between devices, on top of the wire's seconds
  std::vector<StageLink> links{};        ///< who waits for whom, ascending; empty: a chain, each stage linked to the next

  bool can_split() const { return !input_gradient.empty() && !weight_gradient.empty(); }
};

/// A stage's entry of one of the lists; 0 in a list that is empty.
inline double cost_at(const std::vector<double>& costs, int stage) { return costs.empty() ? 0 : costs[stage]; }
/// What sums of seconds and bytes may differ by, as rounding goes.
inline constexpr double kRounding = 1e-9;

/// The links of the stages, those of a chain where none are given.
std::vector<StageLink> links_of(const StageCosts& costs, int stages);

/// Errors  UsageError for a link that leads nowhere or back, a list that is not of `stages` entries (or empty where it may be), and costs that are negative or not finite.
void require_costs(const StageCosts& costs, int stages, bool splits);

/// What an order of work comes to.
struct ScheduleTiming {
  double seconds = 0;              ///< makespan of one step, without norm and optimizer
  double bubble = 0;               ///< 1 - mean busy seconds of a device / seconds
  std::vector<double> peak_bytes;  ///< by device
};

/// Runs a schedule on clocks, as `simulate` runs its program.
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
