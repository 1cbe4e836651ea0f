#include "parallel/plan/search.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "core/error.h"
#include "parallel/plan/bound.h"
#include "parallel/plan/cut.h"
#include "parallel/plan/cut_oracle.h"
#include "parallel/plan/plan_trials.h"

namespace sluice::parallel {

namespace {

constexpr int64_t kMostCutWork = 4'000'000;  // nodes^2 stages: some tenths of a second

/// All cuts with all marks are few enough to be tried.
bool is_small(const SearchPart& part) {
  const int64_t limit = part.problem.exhaustive_limit;
  const int64_t cuts = part.cut() ? 1 : cut_count(part.nodes(), part.stages(), limit);
  const int64_t marks = part.marks() ? 1 : part.nodes() < 20 ? int64_t{1} << part.nodes() : limit + 1;
  return cuts * marks <= limit;
}

/// Too many nodes and stages to look for more than one cut, or for its most even form.
bool is_large(const SearchPart& part) { return int64_t{part.nodes()} * part.nodes() * part.stages() > kMostCutWork; }

void try_all_marks(const SearchPart& part, const Partition& partition, PlanTrials& trials) {
  if (part.marks()) {
    trials.consider(partition, *part.marks());
    return;
  }
  std::vector<bool> marks(part.nodes());
  for (int64_t bits = 0; bits < int64_t{1} << part.nodes(); ++bits) {
    for (int node = 0; node < part.nodes(); ++node) marks[node] = bits >> node & 1;
    trials.consider(partition, marks);
  }
}

/// All of whole stages.
void try_all_plans(const SearchPart& part, PlanTrials& trials) {
  if (part.cut())
    try_all_marks(part, *part.cut(), trials);
  else
    for_each_cut(part.nodes(), part.stages(), [&](const Partition& partition) { try_all_marks(part, partition, trials); });
}

std::optional<Partition> cut_by(const SearchPart& part, const CutOracle::Estimate& estimate, SearchWatch& watch) {
  const CutOracle oracle(part.problem, part.costs, part.schedule, estimate);
  const StageSeconds seconds = [&, calls = 0](int stage, int first, int end) mutable {
    if (++calls % 256 == 0) watch.check();
    return oracle.seconds(stage, first, end);
  };
  if (is_large(part)) return fastest_cut(part.nodes(), part.stages(), seconds);
  // The most even one: a pipeline fills sooner when no stage waits for a longer one.
  return best_cut(part.nodes(), part.stages(), seconds,
                  [&](int stage, int first, int end) { return oracle.least_seconds(stage, first, end); });
}

struct TimedCut {
  Partition partition;
  double seconds;
};

/// As many cuts as some seconds allow.
int64_t trials_of(const SearchPart& part) {
  const int64_t actions = int64_t{part.schedule.micro_batches} * part.stages() * 3;
  const int64_t work = actions * (part.is_open() ? 40 : 1) + int64_t{part.nodes()} * (part.marks() ? 40 : 400);
  return std::clamp<int64_t>(4'000'000 / work, 0, 400);
}

/// Cuts whose one boundary lies elsewhere by a few nodes, until `visit` returns false. It may move `partition` itself: the next ones are
/// then those of what it is.
void for_each_neighbour(const Partition& partition, const std::function<bool(Partition)>& visit) {
  for (int boundary = 0; boundary + 1 < partition.stage_count(); ++boundary)
    for (const int by : {1, -1, 3, -3}) {
      Partition other = partition;
      other.sizes[boundary] += by;
      other.sizes[boundary + 1] -= by;
      if (other.sizes[boundary] < 1 || other.sizes[boundary + 1] < 1) continue;
      if (!visit(std::move(other))) return;
    }
}

/// Moves one boundary at a time as long as some move leaves devices with fewer bytes missing. Returns the cut where none are.
std::optional<TimedCut> made_to_fit(const SearchPart& part, Partition partition, int64_t missing, PlanTrials& trials) {
  int64_t left = trials_of(part);
  for (bool moved = true; moved && missing > 0 && left > 0;) {
    moved = false;
    for_each_neighbour(partition, [&](Partition other) {
      const int64_t bytes = trials.missing_bytes(other);
      if (bytes < missing) moved = true, missing = bytes, partition = std::move(other);
      return missing > 0 && --left > 0;
    });
  }
  if (missing > 0) return std::nullopt;
  const auto seconds = trials.consider(partition);
  return seconds ? std::optional<TimedCut>({std::move(partition), *seconds}) : std::nullopt;
}

/// Cuts are looked for with estimates of bytes: for whole stages first, then for stages in segments, with more and less room. Of a large
/// model the first one that fits is taken.
std::optional<TimedCut> best_estimated_cut(const SearchPart& part, PlanTrials& trials, SearchWatch& watch) {
  static constexpr CutOracle::Estimate kEstimates[] = {{1.0, false},  {1.0, false, 1.0}, {1.0, false, 0.5}, {0.92, false},
                                                       {0.84, false}, {1.0, true},       {0.9, true},       {0.9, true, 1.0},
                                                       {0.8, true},   {1.3, false},      {kInfinity, false}};
  std::set<std::vector<int>> tried;  // with room for everything all estimates make the same cut
  std::optional<TimedCut> best;
  std::optional<std::pair<int64_t, Partition>> nearest;  // that does not fit, with the bytes that it lacks
  for (const auto& estimate : kEstimates) {
    auto partition = cut_by(part, estimate, watch);
    if (!partition || !tried.insert(partition->sizes).second) continue;
    const auto seconds = trials.consider(*partition);
    if (!seconds && !best) {
      const int64_t missing = trials.missing_bytes(*partition);
      if (!nearest || missing < nearest->first) nearest = {missing, *partition};
    }
    if (!seconds || (best && *seconds >= best->seconds)) continue;
    best = {std::move(*partition), *seconds};
    if (is_large(part)) break;
  }
  return best || !nearest ? best : made_to_fit(part, std::move(nearest->second), nearest->first, trials);
}

/// Moves one boundary at a time by a few nodes as long as some move makes the step shorter.
void improve(const SearchPart& part, TimedCut best, PlanTrials& trials) {
  int64_t left = trials_of(part);
  for (bool moved = true; moved && left > 0;) {
    moved = false;
    for_each_neighbour(best.partition, [&](Partition other) {
      if (--left < 0) return false;
      const auto seconds = trials.consider(other);
      if (seconds && *seconds < best.seconds) best = {std::move(other), *seconds}, moved = true;
      return true;
    });
  }
}

/// Returns whether every plan was tried. Never so of an open family, whose orders are searched, not listed.
bool search_part(const SearchPart& part, SearchWatch& watch, PlanSearchResult& result) {
  PlanTrials trials(part, watch, result);
  if (is_small(part)) {
    trials.note_what_is_ruled_out(true);
    try_all_plans(part, trials);
    if (part.marks() || !part.problem.choices.segments) return !part.is_open();
    trials.note_what_is_ruled_out(false);
  }
  if (part.cut())
    trials.consider(*part.cut());
  else if (auto best = best_estimated_cut(part, trials, watch))
    improve(part, std::move(*best), trials);
  return false;
}

void check(const PlanProblem& problem) {
  const auto& choices = problem.choices;
  require(!problem.budgets.empty(), "plan: needs at least one device");
  require(!choices.schedules.empty() && !choices.micro_batches.empty(),
          "plan: needs a schedule and a number of micro-batches to choose from");
  const int nodes = problem.topology.node_count();
  for (const int number : choices.micro_batches) {
    const auto costs = problem.costs.find(number);
    const bool is_known = costs != problem.costs.end() && !costs->second.kinds.empty() &&
                          std::ranges::all_of(costs->second.kinds, [&](const ModelCost& kind) { return std::ssize(kind.nodes) == nodes; });
    require(is_known, "plan: needs the costs of ", nodes, " nodes for ", number, " micro-batches; count or measure them");
  }
}

/// A part of the problem before it is searched.
struct BoundedPart {
  double bound;
  int micro_batches;
  const ScheduleFamily* family;
};

/// Those with the least bounds first.
std::vector<BoundedPart> parts_of(const PlanProblem& problem) {
  const int devices = static_cast<int>(problem.budgets.size()), nodes = problem.topology.node_count();
  std::vector<BoundedPart> parts;
  for (const int number : problem.choices.micro_batches) {
    const double bound = bound_seconds(problem.topology, problem.costs.at(number), devices, number);
    for (const auto& family : problem.choices.schedules)
      if (const int stages = stages_of(family, devices); stages <= nodes && int64_t{number} * stages <= kMostStageRuns)
        parts.push_back({bound, number, &family});
  }
  require(!parts.empty(), "plan: needs at least one node a stage, got ", nodes, " nodes for ", devices,
          " devices; use fewer devices, fewer virtual stages or a deeper model");
  std::ranges::stable_sort(parts, {}, &BoundedPart::bound);
  return parts;
}

void search_parts(const PlanProblem& problem, const std::vector<BoundedPart>& parts, SearchWatch& watch, PlanSearchResult& result) {
  result.is_exact = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [bound, number, family] = parts[i];
    if (result.best && bound >= result.best->seconds) continue;
    watch.begin(join("searching ", name_of(*family), " with ", number, " micro-batches (", i + 1, " of ", parts.size(), ")"));
    if (!search_part(SearchPart(problem, number, *family), watch, result)) result.is_exact = false;
  }
}

}  // namespace

PlanSearchResult search_plan(const PlanProblem& problem, SearchWatch* watch) {
  check(problem);
  const auto parts = parts_of(problem);
  PlanSearchResult result;
  result.bound_seconds = parts.front().bound;
  SearchWatch unwatched;
  try {
    search_parts(problem, parts, watch ? *watch : unwatched, result);
  } catch (const SearchTimeOver&) {
    result.is_out_of_time = true;
    result.is_exact = false;
  }
  return result;
}

}  // namespace sluice::parallel
