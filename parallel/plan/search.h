#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/families.h"
#include "parallel/plan/search_watch.h"
#include "parallel/plan/stage_cost.h"
#include "parallel/program/links.h"
#include "parallel/schedule/search.h"

namespace sluice::parallel {

class CountedBytes;

/// What may be chosen. A list of one is no choice.
struct PlanChoices {
  std::vector<ScheduleFamily> schedules;
  std::vector<int> micro_batches;
  std::map<int, Partition> partitions{};             ///< by number of stages: the cut that is fixed; open where there is none
  std::optional<std::vector<bool>> rematerialize{};  ///< by node; open when there is none
  bool segments = true;                              ///< where that is open, stages may be recomputed in segments (in_segments)
};

struct FoundPlan {
  int micro_batches = 0;
  ScheduleFamily family;
  Schedule schedule;          ///< of the stages before they are cut into segments
  std::vector<int> segments;  ///< by stage of the schedule
  Partition partition;        ///< into segments
  std::vector<bool> rematerialize;
  double seconds = 0;               ///< of a step, with the optimizer
  std::vector<int64_t> peak_bytes;  ///< by device, as device_peak_bytes estimates
  bool operator==(const FoundPlan&) const = default;
};

/// What is given and what is open when a model is to be trained on some devices. Units: seconds and bytes.
struct PlanProblem {
  Topology topology;
  PlanChoices choices;
  std::map<int, ModelCosts> costs;  ///< by number of micro-batches, for all that may be chosen
  std::vector<int64_t> budgets;     ///< by device
  Links links{};
  CountedBytes* counted = nullptr;  ///< where bytes can be counted: a plan that is near a budget is, before it is found or left out
  int exhaustive_limit = 4096;      ///< up to so many pairs of partition and rematerialization all are tried
};

struct PlanSearchResult {
  std::optional<FoundPlan> best;
  double bound_seconds = 0;  ///< no plan of the problem is faster
  /// Every plan was tried, or ruled out because it is slower or because a device would hold more than its budget by device_peak_bytes:
  /// of those that keep to it, `best` is the fastest.
  bool is_exact = false;
  /// Of the fastest plan that was ruled out for its bytes, as far as all were tried. While it is no less than the best one's, the best is
  /// the fastest whatever the devices really hold.
  double ruled_out_seconds = std::numeric_limits<double>::infinity();
  int evaluated = 0;            ///< plans that were timed
  bool is_out_of_time = false;  ///< the watch ended the search: `best` is the best until then, and nothing is exact
};

/// Searches partition, micro-batches, schedule and rematerialization together for the fastest step within the budgets.
///
/// Small problems are searched through, segments aside. In larger ones the cut is the exact minimum of the slowest stage under the budgets,
/// where each stage rematerializes no more than its own number of micro-batches in flight asks for, and is then moved node by node as long as the
/// timed step gets shorter; `bound_seconds` says how far from the best that can be.
/// Times are those of `time_schedule` over a chain of stages, see chain_of; each device has its own.
/// Deterministic, unless the watch's time runs out.
/// Errors  UsageError for a problem without devices, schedules or numbers of micro-batches, costs that are missing, more stages than nodes.
PlanSearchResult search_plan(const PlanProblem& problem, SearchWatch* watch = nullptr);

}  // namespace sluice::parallel
