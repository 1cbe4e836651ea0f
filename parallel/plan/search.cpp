#include "parallel/plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "parallel/plan/bound.h"
#include "parallel/plan/cut.h"
#include "parallel/plan/cut_oracle.h"
#include "parallel/plan/remat.h"
#include "parallel/plan/stage_chain.h"

namespace sluice::parallel {

namespace {

constexpr double kMostAutoBytes = 1.5;  // of a named order's activations: more of them cost caches, of which counted costs know nothing
constexpr int64_t kMostCutWork = 4'000'000;  // nodes^2 stages: some tenths of a second

/// One number of micro-batches with one family of schedules.
class FamilySearch {
 public:
  FamilySearch(const PlanProblem& problem, int micro_batches, const ScheduleFamily& family, SearchWatch& watch, PlanSearchResult& result)
      : problem_(problem),
        costs_(problem.costs.at(micro_batches)),
        family_(family),
        watch_(watch),
        result_(result),
        devices_(static_cast<int>(problem.budgets.size())),
        nodes_(problem.topology.node_count()),
        named_(order_of(family, devices_, micro_batches)),
        marks_(problem.choices.rematerialize) {}

  /// Returns whether every plan was tried.
  bool run() {
    const auto fixed = problem_.choices.partitions.find(named_.stage_count());
    if (is_small(fixed != problem_.choices.partitions.end())) {
      tries_all_ = true;
      if (fixed != problem_.choices.partitions.end())
        consider_all_marks(fixed->second);
      else
        for_each_cut(nodes_, named_.stage_count(), [&](const Partition& partition) { consider_all_marks(partition); });
      if (marks_ || !problem_.choices.segments) return !family_.is_open;  // of which the orders are searched, not listed
      tries_all_ = false;
    }
    if (fixed != problem_.choices.partitions.end()) {
      consider_partition(fixed->second);
      return false;
    }
    improve_best_cut();
    return false;
  }

 private:
  bool is_small(bool is_cut) const {
    const int64_t cuts = is_cut ? 1 : cut_count(nodes_, named_.stage_count(), problem_.exhaustive_limit);
    const int64_t marks = marks_ ? 1 : nodes_ < 20 ? int64_t{1} << nodes_ : problem_.exhaustive_limit + 1;
    return cuts * marks <= problem_.exhaustive_limit;
  }

  /// Too many nodes and stages to look for more than one cut, or for its most even form.
  bool is_large() const { return int64_t{nodes_} * nodes_ * named_.stage_count() > kMostCutWork; }

  /// Cuts are looked for with estimates of bytes: for whole stages first, then for stages in segments, with more and less room. Of a
  /// large model the first one that fits is taken.
  static constexpr CutOracle::Estimate kCuts[] = {{1.0, false}, {1.0, false, true}, {0.92, false}, {0.84, false}, {1.0, true},
                                                  {0.9, true},  {0.9, true, true},  {0.8, true},   {1.3, false},  {kInfinity, false}};

  void improve_best_cut() {
    std::set<std::vector<int>> tried;  // with room for everything all estimates make the same cut
    std::optional<Partition> best;
    double least = kInfinity;
    for (const auto& estimate : kCuts) {
      auto partition = cut(estimate);
      if (!partition || !tried.insert(partition->sizes).second) continue;
      const auto seconds = consider_partition(*partition);
      if (!seconds || (best && *seconds >= least)) continue;
      best = std::move(partition);
      least = *seconds;
      if (is_large()) break;
    }
    if (best) improve(std::move(*best), least);
  }

  std::optional<Partition> cut(const CutOracle::Estimate& estimate) const {
    const CutOracle oracle(problem_, costs_, named_, estimate);
    const StageSeconds seconds = [&](int stage, int first, int end) {
      watch_.check();
      return oracle.seconds(stage, first, end);
    };
    if (is_large()) return fastest_cut(nodes_, named_.stage_count(), seconds);
    // The most even one: a pipeline fills sooner when no stage waits for a longer one.
    return best_cut(nodes_, named_.stage_count(), seconds,
                    [&](int stage, int first, int end) { return oracle.least_seconds(stage, first, end); });
  }

  void consider_all_marks(const Partition& partition) {
    if (marks_) {
      consider(whole_stages(partition), *marks_);
      return;
    }
    std::vector<bool> marks(nodes_);
    for (int64_t bits = 0; bits < int64_t{1} << nodes_; ++bits) {
      for (int node = 0; node < nodes_; ++node) marks[node] = bits >> node & 1;
      consider(whole_stages(partition), marks);
    }
  }

  /// A cut with its stages' segments.
  struct Segmented {
    Partition partition;
    std::vector<int> segments;
  };

  Segmented whole_stages(const Partition& partition) const { return {partition, std::vector<int>(partition.stage_count(), 1)}; }

  /// Stages in `segments[stage]` segments each.
  Segmented in_parts(const Partition& stages, std::vector<int> segments) const {
    Segmented result{{}, std::move(segments)};
    for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++]) {
      const auto sizes = segment_sizes(costs_.any(), first, first + stages.sizes[stage], result.segments[stage]);
      result.partition.sizes.insert(result.partition.sizes.end(), sizes.begin(), sizes.end());
    }
    return result;
  }

  /// The stages of one device in up to `segments` segments each, all others whole.
  Segmented cut_device(const Partition& stages, int device, int segments) const {
    std::vector<int> counts(stages.stage_count(), 1);
    for (int stage = 0; stage < stages.stage_count(); ++stage)
      if (named_.device_of_stage[stage] == device) counts[stage] = std::min(segments, stages.sizes[stage]);
    return in_parts(stages, std::move(counts));
  }

  /// With the least rematerialization that its devices need. Returns what consider() does.
  std::optional<double> consider_partition(const Partition& partition) {
    std::vector<bool> marks = marks_.value_or(std::vector<bool>(nodes_, false));
    std::vector<int> segments(partition.stage_count(), 1);
    if (!marks_)
      for (int device = 0; device < devices_; ++device)
        if (choose_for_device(partition, device, segments, marks) > 0) return std::nullopt;
    return consider(in_parts(partition, std::move(segments)), marks);
  }

  /// What was chosen for one device and the nodes of its stages.
  struct DeviceChoice {
    int64_t missing = std::numeric_limits<int64_t>::max();
    double seconds = kInfinity;
    std::vector<int> segments;  ///< of the device's stages
    std::vector<int> marked;    ///< nodes
  };

  /// The marks and segments of one device with the fewest seconds of recomputation. Returns the bytes that are missing.
  /// They depend on the device's own nodes alone, so each choice is made once.
  int64_t choose_for_device(const Partition& stages, int device, std::vector<int>& segments, std::vector<bool>& marks) {
    std::vector<int> key{device};
    for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++])
      if (named_.device_of_stage[stage] == device) key.insert(key.end(), {first, stages.sizes[stage]});
    DeviceChoice& choice = choices_[key];
    if (choice.segments.empty()) choice = make_choice(stages, device);
    for (int stage = 0, i = 0; stage < stages.stage_count(); ++stage)
      if (named_.device_of_stage[stage] == device) segments[stage] = choice.segments[i++];
    for (const int node : choice.marked) marks[node] = true;
    return choice.missing;
  }

  DeviceChoice make_choice(const Partition& stages, int device) const {
    Schedule own{named_.name, named_.micro_batches, named_.device_of_stage, {}};  // what other devices do does not matter
    own.devices.resize(devices_);
    own.devices[device] = named_.devices[device];
    DeviceChoice best;
    const int most = problem_.choices.segments ? std::ranges::max(stages.sizes) : 1;
    for (int count = 1; best.missing > 0 || best.seconds > 0; count = std::min(most, 2 * count)) {
      watch_.check();
      const Segmented cut = cut_device(stages, device, count);
      std::vector<bool> marks(nodes_, false);
      DeviceChoice tried;
      tried.missing = choose_rematerialization(problem_.topology, costs_.on(device), in_segments(own, cut.segments), cut.partition, device,
                                               problem_.budgets[device], marks);
      tried.seconds = recompute_seconds(stages, device, marks);
      if (tried.missing < best.missing || (tried.missing == best.missing && tried.seconds < best.seconds)) {
        for (int stage = 0; stage < stages.stage_count(); ++stage)
          if (named_.device_of_stage[stage] == device) tried.segments.push_back(cut.segments[stage]);
        for (int node = 0; node < nodes_; ++node)
          if (marks[node]) tried.marked.push_back(node);
        best = std::move(tried);
      }
      if (count == most) break;
    }
    return best;
  }

  double recompute_seconds(const Partition& stages, int device, const std::vector<bool>& marks) const {
    double seconds = 0;
    for (int stage = 0, node = 0; stage < stages.stage_count(); ++stage)
      for (int i = 0; i < stages.sizes[stage]; ++i, ++node)
        if (marks[node] && named_.device_of_stage[stage] == device) seconds += costs_.on(device).nodes[node].recompute;
    return seconds;
  }

  /// Times a plan and keeps it when it is the fastest so far. Returns its seconds, infinite ones when it cannot be the fastest, or
  /// nothing when it does not fit.
  std::optional<double> consider(const Segmented& cut, const std::vector<bool>& marks) {
    watch_.check();
    const Schedule schedule = in_segments(named_, cut.segments);
    const auto stages = stage_costs(problem_.topology, costs_, cut.partition, schedule.device_of_stage, marks);
    if (is_slower_than_best(schedule, stages)) return kInfinity;
    FoundPlan plan{named_.micro_batches, family_, named_, cut.segments, cut.partition, marks, 0, peaks_of(schedule, stages)};
    const bool fits = keeps_to_budgets(plan);
    if (!fits && !tries_all_) return std::nullopt;
    const StageCosts chain = chain_of(problem_.topology, costs_.any(), cut.partition, stages, schedule.device_of_stage, problem_.links);
    plan.seconds = step_seconds(plan, chain, stages);
    if (!fits) {
      result_.ruled_out_seconds = std::min(result_.ruled_out_seconds, plan.seconds);
      return std::nullopt;
    }
    if (family_.is_open) take_faster_order(plan, stages, chain);
    ++result_.evaluated;
    const double seconds = plan.seconds;
    if (!result_.best || seconds < result_.best->seconds) {
      watch_.found(seconds);
      result_.best = std::move(plan);
    }
    return seconds;
  }

  /// Replaces the order of the plan by a searched one that keeps to the budgets too, if that is faster.
  void take_faster_order(FoundPlan& plan, const std::vector<StageCost>& stages, const StageCosts& chain) {
    FoundSchedule found = search_schedule(whole_chain(chain, plan.segments), named_.device_of_stage, named_.micro_batches,
                                          byte_caps(in_segments(named_, plan.segments), stages), [this] { watch_.check(); });
    FoundPlan other = plan;
    other.peak_bytes = peaks_of(in_segments(found.schedule, plan.segments), stages);
    other.schedule = std::move(found.schedule);
    if (!keeps_to_budgets(other)) return;
    other.seconds = step_seconds(other, chain, stages);
    if (other.seconds < plan.seconds) plan = std::move(other);
  }

  /// With the devices as crowded as the plan's order makes them.
  double step_seconds(const FoundPlan& plan, const StageCosts& chain, const std::vector<StageCost>& stages) const {
    const Schedule schedule = in_segments(plan.schedule, plan.segments);
    std::vector<double> factors;
    for (int device = 0; device < devices_; ++device) factors.push_back(costs_.on(device).crowding.factor(plan.peak_bytes[device]));
    return time_schedule(schedule, slowed(chain, schedule.device_of_stage, factors)).seconds + slowest_step(schedule, stages);
  }

  bool is_slower_than_best(const Schedule& schedule, const std::vector<StageCost>& stages) const {
    if (!result_.best) return false;
    std::vector<double> work(devices_, 0.0);
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const StageCost& cost = stages[stage];
      work[schedule.device_of_stage[stage]] +=
          cost.forward + cost.recompute + std::min(cost.backward, cost.input_gradient + cost.weight_gradient);
    }
    return named_.micro_batches * *std::ranges::max_element(work) + slowest_step(schedule, stages) >= result_.best->seconds;
  }

  std::vector<int64_t> peaks_of(const Schedule& schedule, const std::vector<StageCost>& stages) const {
    std::vector<int64_t> peaks;
    for (int device = 0; device < devices_; ++device) peaks.push_back(device_peak_bytes(schedule, stages, device));
    return peaks;
  }

  bool keeps_to_budgets(const FoundPlan& plan) const {
    return std::ranges::equal(plan.peak_bytes, problem_.budgets, std::ranges::less_equal());
  }

  std::vector<double> byte_caps(const Schedule& schedule, const std::vector<StageCost>& stages) const {
    std::vector<double> caps(problem_.budgets.begin(), problem_.budgets.end());
    std::vector<int64_t> passing(devices_, 0);
    std::vector<double> states(devices_, 0.0);
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      const StageCost& cost = stages[stage];
      const int device = schedule.device_of_stage[stage];
      states[device] += static_cast<double>(cost.state_bytes);
      caps[device] -= static_cast<double>(cost.state_bytes);
      passing[device] = std::max({passing[device], cost.recompute_peak_bytes, cost.recomputed_bytes + cost.backward_peak_bytes,
                                  cost.forward_peak_bytes - cost.kept_bytes});
    }
    for (int device = 0; device < devices_; ++device) {
      caps[device] -= static_cast<double>(passing[device]);
      const auto named = static_cast<double>(device_peak_bytes(schedule, stages, device) - passing[device]) - states[device];
      caps[device] = std::min(caps[device], kMostAutoBytes * std::max(1.0, named));
    }
    return caps;
  }

  double slowest_step(const Schedule& schedule, const std::vector<StageCost>& stages) const {
    std::vector<double> seconds(devices_, 0.0);
    for (size_t stage = 0; stage < stages.size(); ++stage) seconds[schedule.device_of_stage[stage]] += stages[stage].step;
    return *std::ranges::max_element(seconds);
  }

  /// Moves one boundary at a time by a few nodes as long as some move makes the step shorter.
  void improve(Partition partition, double seconds) {
    const int64_t actions = int64_t{named_.micro_batches} * named_.stage_count() * 3;
    const int64_t work = actions * (family_.is_open ? 40 : 1) + int64_t{nodes_} * (marks_ ? 40 : 400);
    int64_t trials = std::clamp<int64_t>(4'000'000 / work, 0, 400);
    for (bool moved = true; moved && trials > 0;) {
      moved = false;
      for (int boundary = 0; boundary + 1 < partition.stage_count() && trials > 0; ++boundary)
        for (const int by : {1, -1, 3, -3}) {
          Partition other = partition;
          other.sizes[boundary] += by;
          other.sizes[boundary + 1] -= by;
          if (other.sizes[boundary] < 1 || other.sizes[boundary + 1] < 1 || --trials < 0) continue;
          const auto taken = consider_partition(other);
          if (!taken || *taken >= seconds) continue;
          seconds = *taken;
          partition = std::move(other);
          moved = true;
        }
    }
  }

  const PlanProblem& problem_;
  const ModelCosts& costs_;
  const ScheduleFamily& family_;
  SearchWatch& watch_;
  PlanSearchResult& result_;
  const int devices_, nodes_;
  const Schedule named_;  // what the family's stages run while a cut is looked for
  const std::optional<std::vector<bool>>& marks_;
  std::map<std::vector<int>, DeviceChoice> choices_;  // by device and its stages' nodes
  bool tries_all_ = false;                            // of the plans that are left, so that claims can be made
};

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

/// One number of micro-batches with one family.
struct Part {
  double bound;
  int micro_batches;
  const ScheduleFamily* family;
};

/// Those with the least bounds first.
std::vector<Part> parts_of(const PlanProblem& problem) {
  const int devices = static_cast<int>(problem.budgets.size()), nodes = problem.topology.node_count();
  std::vector<Part> parts;
  for (const int number : problem.choices.micro_batches) {
    const double bound = bound_seconds(problem.topology, problem.costs.at(number), devices, number);
    for (const auto& family : problem.choices.schedules)
      if (stages_of(family, devices) <= nodes) parts.push_back({bound, number, &family});
  }
  require(!parts.empty(), "plan: needs at least one node a stage, got ", nodes, " nodes for ", devices,
          " devices; use fewer devices, fewer virtual stages or a deeper model");
  std::ranges::stable_sort(parts, {}, &Part::bound);
  return parts;
}

void search_parts(const PlanProblem& problem, const std::vector<Part>& parts, SearchWatch& watch, PlanSearchResult& result) {
  result.is_exact = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [bound, number, family] = parts[i];
    if (result.best && bound >= result.best->seconds) continue;
    watch.begin(join("searching ", name_of(*family), " with ", number, " micro-batches (", i + 1, " of ", parts.size(), ")"));
    if (!FamilySearch(problem, number, *family, watch, result).run()) result.is_exact = false;
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
