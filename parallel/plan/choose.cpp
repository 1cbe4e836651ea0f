#include "parallel/plan/choose.h"

#include <algorithm>
#include <functional>

#include "core/device_speeds.h"
#include "parallel/plan/counted_bytes.h"
#include "parallel/plan/model_topology.h"
#include "parallel/plan/stage_chain.h"
#include "parallel/plan/windows.h"
#include "parallel/run/device_links.h"

namespace sluice::parallel {

namespace {

constexpr int kMostSearches = 8;

/// So many plans may be counted: of a large model fewer, as each takes longer.
int most_counts(int nodes) { return std::clamp(16384 / nodes, 16, 256); }

/// Whether nothing is left to choose.
bool is_settled(const PlanChoices& choices, int devices) {
  return choices.schedules.size() == 1 && !choices.schedules[0].is_open && choices.micro_batches.size() == 1 && choices.rematerialize &&
         choices.partitions.contains(stages_of(choices.schedules[0], devices));
}

std::vector<int64_t> budgets_of(const std::vector<DevicePtr>& devices) {
  std::vector<int64_t> budgets;
  for (const auto& device : devices) budgets.push_back(device->budget_bytes());
  return budgets;
}

/// Each node reads inputs of the graph and what the node before it made. Then stages are a chain, whatever the cut.
bool is_chain(const Topology& topology) {
  for (int node = 0; node < topology.node_count(); ++node)
    for (const int value : topology.nodes[node].inputs)
      if (topology.node_of(value) >= 0 && topology.node_of(value) != node - 1) return false;
  return true;
}

/// The order of a family that is not open.
PlannedSchedule order_by(const ScheduleFamily& family) {
  return std::visit([](const auto& order) -> PlannedSchedule { return order; }, family.order);
}

/// One plan search with what it needs, and the plans that come of it.
class Chooser {
 public:
  Chooser(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, PlanChoices choices,
          const ReplicaShare& share)
      : graph_(graph),
        devices_(std::move(devices)),
        options_(options),
        state_shards_(share.state_shards),
        budgets_(share.budgets.empty() ? budgets_of(devices_) : share.budgets),
        watch_(options.search_seconds, options.progress) {
    problem_ = {topology_of(graph), std::move(choices), {}, budgets_, links_of(devices_, nominal_speeds_of(devices_, options.precision))};
  }

  Plan choose() {
    try {
      count_nodes();
    } catch (const SearchTimeOver&) {
      is_out_of_time_ = true;
      return at_once();
    }
    set_budgets();
    search_and_count();
    if (best_) return assemble(*best_);
    const PlanSearchResult nearest = is_out_of_time_ ? last_ : nearest_result();
    return nearest.best ? assemble(with_window(nearest)) : at_once();
  }

 private:
  /// A plan that the search found, with the window that its budgets leave it.
  struct Candidate {
    PlanSearchResult result;
    Plan plan;
    double step_seconds = 0;  ///< with the window; those of the result are with all receives posted at once
  };

  void count_nodes() {
    for (const int number : problem_.choices.micro_batches) {
      watch_.begin(join("counting nodes with ", number, " micro-batches"));
      problem_.costs[number] = model_costs(graph_, options_, devices_, number, watch_);
      for (ModelCost& kind : problem_.costs[number].kinds)
        for (NodeCost& node : kind.nodes) node.state_bytes -= elsewhere(node);
    }
  }

  /// What the other replicas have of a node's states.
  int64_t elsewhere(const NodeCost& node) const { return node.sharded_bytes - node.sharded_bytes / state_shards_; }

  /// A search counts what is near a budget. What it finds is counted in any case, and where that does not fit, it is not found again.
  void search_and_count() {
    for (int round = 0; round < kMostSearches && !best_ && !is_out_of_time_; ++round) {
      last_ = search();
      if (!last_.best) break;
      if (std::ranges::equal(counted_.count(*last_.best), problem_.budgets, std::ranges::less_equal())) best_ = with_window(last_);
    }
  }

  /// What a plan's devices hold beside their own bytes.
  std::vector<int64_t> count(const FoundPlan& plan) {
    auto peaks = counted_peaks(plan_of(plan));
    note_nearest(plan, peaks);
    for (size_t device = 0; device < peaks.size(); ++device) peaks[device] -= own_bytes(device);
    return peaks;
  }

  PlanSearchResult search() {
    PlanSearchResult result = search_plan(problem_, &watch_);
    if (bound_ == 0) bound_ = result.bound_seconds;  // later ones may have fewer choices
    is_out_of_time_ = is_out_of_time_ || result.is_out_of_time;
    return result;
  }

  /// A plan without any search: everything is rematerialized where that is open, in as many micro-batches as may be.
  Plan at_once() const {
    const PlanChoices& choices = problem_.choices;
    const auto settled = std::ranges::find(choices.schedules, false, &ScheduleFamily::is_open);
    const ScheduleFamily& family = settled == choices.schedules.end() ? choices.schedules.front() : *settled;
    const int nodes = static_cast<int>(graph_.nodes().size()), stages = stages_of(family, static_cast<int>(devices_.size()));
    const auto fixed = choices.partitions.find(stages);
    Plan plan;
    plan.devices = devices_;
    plan.partition = fixed == choices.partitions.end() ? partition_uniform(nodes, stages) : fixed->second;
    plan.micro_batches = std::ranges::max(choices.micro_batches);
    plan.schedule = order_by(family);
    plan.rematerialize = choices.rematerialize.value_or(std::vector<bool>(graph_.nodes().size(), true));
    plan.precision = options_.precision;
    plan.is_out_of_time = is_out_of_time_;
    return plan;
  }

  std::vector<int64_t> counted_peaks(const Plan& plan) {
    watch_.begin("counting the bytes of a step");
    auto peaks = counted_peak_bytes(graph_, plan, optimizer_of(options_), options_.batch);
    const ModelCosts& costs = problem_.costs.at(plan.micro_batches);
    const auto placement = device_of_stage(plan);
    const Partition& segments = plan.partition.segments();
    for (int segment = 0; segment < segments.stage_count(); ++segment)
      for (int node = segments.first_node(segment); node < segments.end_node(segment); ++node)
        peaks[placement[segment]] -= elsewhere(costs.on(placement[segment]).nodes[node]);
    return peaks;
  }

  bool has_budgets() const {
    return std::ranges::any_of(budgets_, [](int64_t budget) { return budget != kUnlimited; });
  }
  bool fit(const std::vector<int64_t>& peaks) const { return std::ranges::equal(peaks, budgets_, std::ranges::less_equal()); }

  /// Receives are posted as early as makes the step shorter, and as the budgets allow; the search takes them to be posted at once.
  Candidate with_window(const PlanSearchResult& result) {
    const FoundPlan& found = *result.best;
    Candidate candidate{result, plan_of(found), found.seconds};
    if (devices_.size() == 1) return candidate;
    auto windows = windows_worth_their_bytes(problem_, found);
    candidate.plan.window = windows.back().window;
    while (windows.size() > 1 && has_budgets() && !fit(counted_peaks(candidate.plan))) {
      windows.pop_back();
      candidate.plan.window = windows.back().window;
    }
    candidate.step_seconds = windows.back().seconds;
    return candidate;
  }

  int64_t own_bytes(size_t device) const { return problem_.costs.begin()->second.on(static_cast<int>(device)).own_bytes; }

  /// Those of the search: the room that a device's own bytes leave.
  void set_budgets() {
    for (size_t device = 0; device < budgets_.size(); ++device)
      problem_.budgets[device] = budgets_[device] == kUnlimited ? kUnlimited : std::max<int64_t>(1, budgets_[device] - own_bytes(device));
    if (has_budgets()) problem_.counted = &counted_;
  }

  /// Keeps what passes its budgets by the smallest share.
  void note_nearest(const FoundPlan& plan, const std::vector<int64_t>& peaks) {
    double excess = 0;
    for (size_t device = 0; device < budgets_.size(); ++device)
      excess = std::max(excess, static_cast<double>(peaks[device]) / static_cast<double>(budgets_[device]) - 1);
    if (nearest_.best && excess >= least_excess_) return;
    nearest_.best = plan;
    least_excess_ = excess;
  }

  /// Of what was counted, and of the plan that most often needs least: everything is rematerialized where that is open, in as many
  /// micro-batches as may be.
  PlanSearchResult nearest_result() {
    const PlanProblem problem = problem_;
    std::ranges::fill(problem_.budgets, kUnlimited);
    problem_.counted = nullptr;
    auto& choices = problem_.choices;
    if (!choices.rematerialize) choices.rematerialize = std::vector<bool>(graph_.nodes().size(), true);
    choices.micro_batches = {std::ranges::max(choices.micro_batches)};
    const PlanSearchResult least = search();
    problem_ = problem;  // the bound is of all choices
    if (least.best) note_nearest(*least.best, counted_peaks(plan_of(*least.best)));
    return nearest_;
  }

  Plan plan_of(const FoundPlan& found) const {
    Plan plan;
    plan.devices = devices_;
    plan.partition = SegmentedPartition(found.partition, found.segments);
    plan.micro_batches = found.micro_batches;
    plan.schedule =
        found.family.is_open ? PlannedSchedule(SearchedSchedule(found.schedule, chain_of_stages(found))) : order_by(found.family);
    plan.rematerialize = found.rematerialize;
    plan.precision = options_.precision;
    return plan;
  }

  /// What the order was searched with: the costs of whole stages.
  StageCosts chain_of_stages(const FoundPlan& found) const {
    const ModelCosts& costs = problem_.costs.at(found.micro_batches);
    const auto placement = in_segments(found.schedule, found.segments).device_of_stage;
    const auto stages = stage_costs(problem_.topology, costs, found.partition, placement, found.rematerialize);
    return whole_chain(chain_of(problem_.topology, costs.any(), found.partition, stages, problem_.links), found.segments);
  }

  Plan assemble(Candidate candidate) {
    const PlanSearchResult& result = candidate.result;
    const FoundPlan& found = *result.best;
    Plan plan = std::move(candidate.plan);
    if (options_.times)
      for (const ModelCost& kind : problem_.costs.at(found.micro_batches).kinds) plan.times.push_back(times_of(kind));
    plan.bound_seconds = has_even_micro_batches() ? bound_ : bound_of_smallest();
    plan.is_exact = result.is_exact && !is_out_of_time_ && result.ruled_out_seconds >= found.seconds &&
                    candidate.step_seconds <= found.seconds * (1 + kWorthIt) && is_timed_exactly();
    plan.is_out_of_time = is_out_of_time_;
    return plan;
  }

  /// Whether all are as large as the search takes them to be, the largest. Measured ones are predicted so, too.
  bool has_even_micro_batches() const {
    return options_.times || std::ranges::all_of(problem_.choices.micro_batches, [&](int number) { return options_.batch % number == 0; });
  }

  double bound_of_smallest() const {
    SearchWatch unwatched;
    return step_bound(graph_, devices_, options_, options_.batch, 1, unwatched).seconds;
  }

  /// Whether micro-batches are as large as the search takes them to be, stages are the chain that it takes them for, and no device slows
  /// down in a way that depends on its exact bytes.
  bool is_timed_exactly() const {
    if (!has_even_micro_batches()) return false;
    for (const auto& [number, costs] : problem_.costs)
      for (const ModelCost& kind : costs.kinds)
        if (kind.crowding.most > 0) return false;
    return devices_.size() == 1 || (is_chain(problem_.topology) && problem_.topology.tied.empty());
  }

  static std::vector<NodeTimes> times_of(const ModelCost& model) {
    std::vector<NodeTimes> times;
    for (const NodeCost& cost : model.nodes)
      times.push_back({cost.forward, cost.backward, cost.input_gradient, cost.weight_gradient, cost.recompute, cost.step, cost.copy,
                       model.crowding.most, static_cast<double>(model.crowding.bytes)});
    return times;
  }

  const layers::Graph& graph_;
  std::vector<DevicePtr> devices_;
  const PlanOptions& options_;
  const int state_shards_;
  const std::vector<int64_t> budgets_;
  SearchWatch watch_;
  PlanProblem problem_;
  CountedBytes counted_{problem_.topology, [this](const FoundPlan& plan) { return count(plan); },
                        most_counts(static_cast<int>(graph_.nodes().size()))};
  std::optional<Candidate> best_;  ///< the plan that fits
  PlanSearchResult last_, nearest_;
  double least_excess_ = 0;
  double bound_ = 0;
  bool is_out_of_time_ = false;
};

}  // namespace

Plan choose_plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, PlanChoices choices,
                 const ReplicaShare& share) {
  const int count = static_cast<int>(devices.size());
  if (!is_settled(choices, count)) return Chooser(graph, std::move(devices), options, std::move(choices), share).choose();
  Plan plan;
  const ScheduleFamily& family = choices.schedules[0];
  plan.partition = choices.partitions.at(stages_of(family, count));
  plan.micro_batches = choices.micro_batches[0];
  plan.schedule = order_by(family);
  plan.rematerialize = *choices.rematerialize;
  plan.precision = options.precision;
  if (options.times)
    for (const auto& device : one_of_each_kind(devices))
      plan.times.push_back(options.times((options.batch + plan.micro_batches - 1) / plan.micro_batches, device));
  plan.devices = std::move(devices);
  return plan;
}

}  // namespace sluice::parallel
