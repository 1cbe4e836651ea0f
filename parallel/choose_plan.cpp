#include "parallel/choose_plan.h"

#include <algorithm>

#include "parallel/node_bytes.h"
#include "parallel/stage_chain.h"

namespace sluice::parallel {

namespace {

constexpr int kMostCorrections = 5;

const Optimizer& optimizer_of(const PlanOptions& options) {
  static const AdamW usual({});
  return options.optimizer ? *options.optimizer : usual;
}

/// Whether nothing is left to choose.
bool is_settled(const PlanChoices& choices, int devices) {
  return choices.schedules.size() == 1 && choices.schedules[0].name != "auto" && choices.micro_batches.size() == 1 &&
         choices.rematerialize && choices.partitions.contains(stages_of(choices.schedules[0], devices));
}

std::vector<int64_t> budgets_of(const std::vector<DevicePtr>& devices) {
  std::vector<int64_t> budgets;
  for (const auto& device : devices) budgets.push_back(device->budget_bytes());
  return budgets;
}

/// One plan search with what it needs, and the plans that come of it.
class Chooser {
 public:
  Chooser(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, PlanChoices choices)
      : graph_(graph), devices_(std::move(devices)), options_(options), budgets_(budgets_of(devices_)) {
    const DeviceSpeed& speed = devices_[0]->options().speed;
    problem_ = {topology_of(graph), std::move(choices), {}, budgets_, {speed.link_latency_seconds, speed.link_bytes_per_second}};
    for (const int number : problem_.choices.micro_batches) problem_.costs[number] = model_cost(graph, options, devices_, number);
  }

  Plan choose() {
    PlanSearchResult best = without_rematerialization();
    for (int round = 0; round < kMostCorrections; ++round) {
      PlanSearchResult result = search_plan(problem_);
      if (!result.best) break;
      const auto peaks = counted_peak_bytes(graph_, assemble(*result.best, result), optimizer_of(options_), options_.batch);
      const bool fits = std::ranges::equal(peaks, budgets_, std::ranges::less_equal());
      if (fits && (!best.best || result.best->seconds < best.best->seconds)) best = result;
      const bool moved = correct(result.best->peak_bytes, peaks);
      if (!moved || (fits && is_near(result.best->peak_bytes, peaks))) break;
    }
    if (!best.best) best = without_budgets();
    return assemble(*best.best, best);
  }

 private:
  /// The estimate leaves next to no room unused.
  bool is_near(const std::vector<int64_t>& estimated, const std::vector<int64_t>& counted) const {
    for (size_t device = 0; device < budgets_.size(); ++device)
      if (budgets_[device] != kUnlimited && estimated[device] - counted[device] > budgets_[device] / 50) return false;
    return true;
  }

  /// Shifts the budgets of the search by what its estimate was off. Returns whether any moved.
  bool correct(const std::vector<int64_t>& estimated, const std::vector<int64_t>& counted) {
    bool moved = false;
    for (size_t device = 0; device < budgets_.size(); ++device) {
      if (budgets_[device] == kUnlimited) continue;
      const int64_t budget = std::max<int64_t>(1, budgets_[device] - (counted[device] - estimated[device]));
      moved = moved || budget != problem_.budgets[device];
      problem_.budgets[device] = budget;
    }
    return moved;
  }

  /// Where it is open and none is needed. The search's estimate may be above what is counted, and then it would recompute for nothing.
  PlanSearchResult without_rematerialization() const {
    constexpr double kSlack = 1.25;
    if (problem_.choices.rematerialize || std::ranges::all_of(budgets_, [](int64_t budget) { return budget == kUnlimited; })) return {};
    PlanProblem plain = problem_;
    plain.choices.rematerialize = std::vector<bool>(graph_.nodes().size(), false);
    for (auto& budget : plain.budgets)
      if (budget != kUnlimited) budget = static_cast<int64_t>(kSlack * static_cast<double>(budget));
    PlanSearchResult result = search_plan(plain);
    result.is_exact = false;  // of all choices
    if (!result.best) return {};
    const auto peaks = counted_peak_bytes(graph_, assemble(*result.best, result), optimizer_of(options_), options_.batch);
    return std::ranges::equal(peaks, budgets_, std::ranges::less_equal()) ? result : PlanSearchResult{};
  }

  /// The plan that needs least: everything is rematerialized where that is open, in as many micro-batches as may be.
  PlanSearchResult without_budgets() {
    PlanProblem nearest = problem_;
    std::ranges::fill(nearest.budgets, kUnlimited);
    auto& choices = nearest.choices;
    if (!choices.rematerialize) choices.rematerialize = std::vector<bool>(graph_.nodes().size(), true);
    choices.micro_batches = {std::ranges::max(choices.micro_batches)};
    return search_plan(nearest);
  }

  Plan assemble(const FoundPlan& found, const PlanSearchResult& result) const {
    Plan plan;
    plan.devices = devices_;
    plan.partition = found.partition;
    if (std::ranges::max(found.segments) > 1) plan.segments = found.segments;
    plan.micro_batches = found.micro_batches;
    plan.schedule = found.family;
    plan.rematerialize = found.rematerialize;
    plan.precision = options_.precision;
    plan.bound_seconds = result.bound_seconds;
    plan.is_exact = result.is_exact;
    const bool is_named = std::ranges::find(schedule_names(), found.family) != schedule_names().end();
    if (!is_named) {
      plan.orders = found.schedule;
      const ModelCost& model = problem_.costs.at(found.micro_batches);
      const auto stages = stage_costs(problem_.topology, model, found.partition, found.rematerialize);
      plan.chain = whole_chain(chain_of(problem_.topology, model, found.partition, stages, problem_.link), found.segments);
    }
    if (options_.times) plan.times = times_of(problem_.costs.at(found.micro_batches));
    return plan;
  }

  static std::vector<NodeTimes> times_of(const ModelCost& model) {
    std::vector<NodeTimes> times;
    for (const NodeCost& cost : model.nodes)
      times.push_back({cost.forward, cost.backward, cost.input_gradient, cost.weight_gradient, cost.recompute, cost.step,
                       model.crowding.most, static_cast<double>(model.crowding.bytes)});
    return times;
  }

  const layers::Graph& graph_;
  std::vector<DevicePtr> devices_;
  const PlanOptions& options_;
  const std::vector<int64_t> budgets_;
  PlanProblem problem_;
};

}  // namespace

ModelCost model_cost(const layers::Graph& graph, const PlanOptions& options, const std::vector<DevicePtr>& devices, int micro_batches) {
  const int64_t samples = (options.batch + micro_batches - 1) / micro_batches;
  const Device& device = *devices[0];
  ModelCost model = model_bytes(graph, samples, options.precision, device.backend(), optimizer_of(options));
  const auto times =
      options.times ? options.times(samples)
                    : counted_nodes(graph, samples, device.options().speed, options.precision, optimizer_of(options), device.backend());
  set_times(model, times);
  return model;
}

Plan choose_plan(const layers::Graph& graph, std::vector<DevicePtr> devices, const PlanOptions& options, PlanChoices choices) {
  const int count = static_cast<int>(devices.size());
  if (!is_settled(choices, count)) return Chooser(graph, std::move(devices), options, std::move(choices)).choose();
  Plan plan;
  const ScheduleFamily& family = choices.schedules[0];
  plan.partition = choices.partitions.at(stages_of(family, count));
  plan.micro_batches = choices.micro_batches[0];
  plan.schedule = family.name;
  plan.orders = family.orders;
  plan.rematerialize = *choices.rematerialize;
  plan.precision = options.precision;
  if (options.times) plan.times = options.times((options.batch + plan.micro_batches - 1) / plan.micro_batches);
  plan.devices = std::move(devices);
  return plan;
}

}  // namespace sluice::parallel
