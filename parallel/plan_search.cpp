#include "parallel/plan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "parallel/cut_oracle.h"
#include "parallel/plan_cut.h"
#include "parallel/plan_remat.h"
#include "parallel/stage_chain.h"

namespace sluice::parallel {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostAutoBytes = 1.5;  // of a named order's activations: more of them cost caches, of which counted costs know nothing
constexpr int64_t kMostCutWork = 4'000'000;  // nodes^2 stages: some tenths of a second

double sum_of(const ModelCost& model, double NodeCost::*part) {
  double sum = 0;
  for (const NodeCost& node : model.nodes) sum += node.*part;
  return sum;
}

/// Work of one micro-batch that no plan can avoid: a backward in one piece or in two, whichever is less.
double least_work(const NodeCost& node) { return node.forward + std::min(node.backward, node.input_gradient + node.weight_gradient); }

/// No plan with these micro-batches is faster: the devices share the work, the largest node is on one of them, and one micro-batch goes
/// all the way forward and back.
double lower_bound(const ModelCost& model, int micro_batches, int devices) {
  double work = 0, largest = 0;
  for (const NodeCost& node : model.nodes) {
    work += least_work(node);
    largest = std::max(largest, least_work(node));
  }
  const double round_trip = sum_of(model, &NodeCost::forward) + sum_of(model, &NodeCost::input_gradient);
  return std::max({micro_batches * work / devices, micro_batches * largest, devices > 1 ? round_trip : 0.0});
}

/// One number of micro-batches with one family of schedules.
class FamilySearch {
 public:
  FamilySearch(const PlanProblem& problem, int micro_batches, const ScheduleFamily& family, PlanSearchResult& result)
      : problem_(problem),
        model_(problem.costs.at(micro_batches)),
        family_(family),
        result_(result),
        devices_(static_cast<int>(problem.budgets.size())),
        nodes_(problem.topology.node_count()),
        named_(family.orders ? *family.orders : make_schedule(family.named(), devices_, micro_batches, family.virtual_stages)),
        marks_(problem.choices.rematerialize) {}

  /// Returns whether every plan was tried.
  bool run() {
    const auto fixed = problem_.choices.partitions.find(named_.stage_count());
    if (is_small(fixed != problem_.choices.partitions.end())) {
      if (fixed != problem_.choices.partitions.end())
        consider_all_marks(fixed->second);
      else
        for_each_cut(nodes_, named_.stage_count(), [&](const Partition& partition) { consider_all_marks(partition); });
      if (marks_ || !problem_.choices.segments) return family_.name != "auto";  // of which the orders are searched, not listed
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
  static constexpr std::pair<double, bool> kCuts[] = {{1.0, false}, {0.92, false}, {0.84, false}, {1.0, true},
                                                      {0.9, true},  {0.8, true},   {1.3, false},  {kInfinity, false}};

  void improve_best_cut() {
    std::set<std::vector<int>> tried;  // with room for everything all estimates make the same cut
    std::optional<Partition> best;
    double least = kInfinity;
    for (const auto& [share, fine] : kCuts) {
      auto partition = cut(share, fine);
      if (!partition || !tried.insert(partition->sizes).second) continue;
      const auto seconds = consider_partition(*partition);
      if (!seconds || (best && *seconds >= least)) continue;
      best = std::move(partition);
      least = *seconds;
      if (is_large()) break;
    }
    if (best) improve(std::move(*best), least);
  }

  std::optional<Partition> cut(double share, bool fine) const {
    const CutOracle oracle(problem_, model_, named_, share, fine);
    const StageSeconds seconds = [&](int stage, int first, int end) { return oracle.seconds(stage, first, end); };
    const int stages = named_.stage_count();
    auto partition = fastest_cut(nodes_, stages, seconds);
    if (!partition || is_large()) return partition;
    double slowest = 0;
    for (int stage = 0; stage < stages; ++stage)
      slowest = std::max(slowest, *seconds(stage, partition->first_node(stage), partition->end_node(stage)));
    return most_even_cut(nodes_, stages, seconds, slowest);  // a pipeline fills sooner when no stage waits for a longer one
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
      const auto sizes = segment_sizes(model_, first, first + stages.sizes[stage], result.segments[stage]);
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
    DeviceChoice best;
    const int most = problem_.choices.segments ? std::ranges::max(stages.sizes) : 1;
    for (int count = 1; best.missing > 0 || best.seconds > 0; count = std::min(most, 2 * count)) {
      const Segmented cut = cut_device(stages, device, count);
      std::vector<bool> marks(nodes_, false);
      DeviceChoice tried;
      tried.missing = choose_rematerialization(problem_.topology, model_, in_segments(named_, cut.segments), cut.partition, device,
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
        if (marks[node] && named_.device_of_stage[stage] == device) seconds += model_.nodes[node].recompute;
    return seconds;
  }

  /// Times a plan and keeps it when it is the fastest so far. Returns its seconds, infinite ones when it cannot be the fastest, or
  /// nothing when it does not fit.
  std::optional<double> consider(const Segmented& cut, const std::vector<bool>& marks) {
    const auto stages = stage_costs(problem_.topology, model_, cut.partition, marks);
    const Schedule schedule = in_segments(named_, cut.segments);
    if (is_slower_than_best(schedule, stages)) return kInfinity;
    auto peaks = peaks_within_budgets(schedule, stages);
    if (!peaks) return std::nullopt;
    FoundPlan plan{named_.micro_batches, family_.name, named_, cut.segments, cut.partition, marks, 0, *peaks};
    const StageCosts chain = chain_of(problem_.topology, model_, cut.partition, stages, problem_.link);
    plan.seconds = step_seconds(plan, chain, stages);
    if (family_.name == "auto") take_faster_order(plan, stages, chain);
    ++result_.evaluated;
    const double seconds = plan.seconds;
    if (!result_.best || seconds < result_.best->seconds) result_.best = std::move(plan);
    return seconds;
  }

  /// Replaces the order of the plan by a searched one that keeps to the budgets too, if that is faster.
  void take_faster_order(FoundPlan& plan, const std::vector<StageCost>& stages, const StageCosts& chain) {
    FoundSchedule found = search_schedule(whole_chain(chain, plan.segments), named_.device_of_stage, named_.micro_batches,
                                          byte_caps(in_segments(named_, plan.segments), stages));
    auto peaks = peaks_within_budgets(in_segments(found.schedule, plan.segments), stages);
    if (!peaks) return;
    FoundPlan other = plan;
    other.schedule = std::move(found.schedule);
    other.peak_bytes = std::move(*peaks);
    other.seconds = step_seconds(other, chain, stages);
    if (other.seconds < plan.seconds) plan = std::move(other);
  }

  /// With the devices as crowded as the plan's order makes them.
  double step_seconds(const FoundPlan& plan, const StageCosts& chain, const std::vector<StageCost>& stages) const {
    const Schedule schedule = in_segments(plan.schedule, plan.segments);
    std::vector<double> factors;
    for (const int64_t bytes : plan.peak_bytes) factors.push_back(model_.crowding.factor(bytes));
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

  std::optional<std::vector<int64_t>> peaks_within_budgets(const Schedule& schedule, const std::vector<StageCost>& stages) {
    std::vector<int64_t> peaks;
    for (int device = 0; device < devices_; ++device) {
      peaks.push_back(device_peak_bytes(schedule, stages, device));
      if (peaks.back() > problem_.budgets[device]) return std::nullopt;
    }
    return peaks;
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
    const int64_t work = actions * (family_.name == "auto" ? 40 : 1) + int64_t{nodes_} * (marks_ ? 40 : 400);
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
  const ModelCost& model_;
  const ScheduleFamily& family_;
  PlanSearchResult& result_;
  const int devices_, nodes_;
  const Schedule named_;  // what the family's stages run while a cut is looked for
  const std::optional<std::vector<bool>>& marks_;
  std::map<std::vector<int>, DeviceChoice> choices_;  // by device and its stages' nodes
};

void check(const PlanProblem& problem) {
  const auto& choices = problem.choices;
  require(!problem.budgets.empty(), "plan: needs at least one device");
  require(!choices.schedules.empty() && !choices.micro_batches.empty(),
          "plan: needs a schedule and a number of micro-batches to choose from");
  const int nodes = problem.topology.node_count();
  for (const int number : choices.micro_batches) {
    const auto model = problem.costs.find(number);
    require(model != problem.costs.end() && static_cast<int>(model->second.nodes.size()) == nodes, "plan: needs the costs of ", nodes,
            " nodes for ", number, " micro-batches; count or measure them");
  }
}

}  // namespace

int stages_of(const ScheduleFamily& family, int devices) {
  if (family.orders) return family.orders->stage_count();
  return static_cast<int>(stage_placement(family.named(), devices, family.virtual_stages).size());
}

std::vector<ScheduleFamily> all_schedule_families(int devices, int nodes) {
  if (devices == 1) return {{"1f1b"}, {"gpipe"}};
  std::vector<ScheduleFamily> families{{"1f1b"}, {"zb-h1"}, {"auto", 1, "1f1b"}};
  if (nodes >= 2 * devices) {
    families.push_back({"zb-v"});
    families.push_back({"auto", 2, "zb-v"});
  }
  for (int stages = 2; stages <= kMostVirtualStages && nodes >= stages * devices; ++stages) families.push_back({"interleaved", stages});
  return families;
}

PlanSearchResult search_plan(const PlanProblem& problem) {
  check(problem);
  const int devices = static_cast<int>(problem.budgets.size()), nodes = problem.topology.node_count();
  PlanSearchResult result;
  struct Part {
    double bound;
    int micro_batches;
    const ScheduleFamily* family;
  };
  std::vector<Part> parts;
  for (const int number : problem.choices.micro_batches)
    for (const auto& family : problem.choices.schedules)
      if (stages_of(family, devices) <= nodes) parts.push_back({lower_bound(problem.costs.at(number), number, devices), number, &family});
  require(!parts.empty(), "plan: needs at least one node a stage, got ", nodes, " nodes for ", devices,
          " devices; use fewer devices, fewer virtual stages or a deeper model");
  std::ranges::stable_sort(parts, {}, &Part::bound);
  result.bound_seconds = parts.front().bound;
  result.is_exact = true;
  for (const Part& part : parts) {
    if (result.best && part.bound >= result.best->seconds) continue;
    if (!FamilySearch(problem, part.micro_batches, *part.family, result).run()) result.is_exact = false;
  }
  return result;
}

}  // namespace sluice::parallel
