#include "parallel/plan/plan_trials.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "parallel/plan/counted_bytes.h"
#include "parallel/plan/stage_chain.h"

namespace sluice::parallel {

namespace {

constexpr double kSlack = 1.25;         // what is counted is hardly ever more times the estimate, nor less than it by the square of that
constexpr int kMostCounts = 3;          // of one cut, each with the recomputation that the one before asks for
constexpr double kMostOpenBytes = 1.5;  // of a named order's activations: more of them cost caches, of which counted costs know nothing

std::vector<int64_t> peaks_of(const Schedule& schedule, const std::vector<StageCost>& stages) {
  std::vector<int64_t> peaks;
  for (int device = 0; device < schedule.device_count(); ++device) peaks.push_back(device_peak_bytes(schedule, stages, device));
  return peaks;
}

/// With the devices as crowded as the plan's order makes them.
double step_seconds(const FoundPlan& plan, const StageCosts& chain, const ModelCosts& costs) {
  const Schedule schedule = in_segments(plan.schedule, plan.segments);
  std::vector<double> factors;
  for (int device = 0; device < schedule.device_count(); ++device)
    factors.push_back(costs.on(device).crowding.factor(plan.peak_bytes[device]));
  return time_schedule(schedule, slowed(chain, schedule.device_of_stage, factors)).step_seconds;
}

/// What the work and the optimizer of the slowest device take, whatever the order.
double least_seconds(const Schedule& schedule, const std::vector<StageCost>& stages) {
  std::vector<double> seconds(schedule.devices.size(), 0.0);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageCost& cost = stages[stage];
    const double work = cost.forward + cost.recompute + std::min(cost.backward, cost.input_gradient + cost.weight_gradient);
    seconds[schedule.device_of_stage[stage]] += schedule.micro_batches * work + cost.step;
  }
  return std::ranges::max(seconds);
}

/// Bytes that a searched order may keep on each device: what the budget leaves, and not many more than the named order keeps.
std::vector<double> byte_caps(const std::vector<int64_t>& budgets, const Schedule& schedule, const std::vector<StageCost>& stages) {
  std::vector<int64_t> passing(budgets.size(), 0), states(budgets.size(), 0);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageCost& cost = stages[stage];
    const int device = schedule.device_of_stage[stage];
    states[device] += cost.state_bytes;
    passing[device] = std::max({passing[device], cost.recompute_peak_bytes, cost.recomputed_bytes + cost.input_gradient_bytes,
                                cost.forward_peak_bytes - cost.kept_bytes});
  }
  std::vector<double> caps;
  for (size_t device = 0; device < budgets.size(); ++device) {
    const auto fixed = static_cast<double>(states[device]) + static_cast<double>(passing[device]);
    const auto named = static_cast<double>(device_peak_bytes(schedule, stages, static_cast<int>(device))) - fixed;
    caps.push_back(std::min(static_cast<double>(budgets[device]) - fixed, kMostOpenBytes * std::max(1.0, named)));
  }
  return caps;
}

}  // namespace

SearchPart::SearchPart(const PlanProblem& problem, int micro_batches, const ScheduleFamily& family)
    : problem(problem),
      family(family),
      costs(problem.costs.at(micro_batches)),
      schedule(order_of(family, static_cast<int>(problem.budgets.size()), micro_batches)) {}

const Partition* SearchPart::cut() const {
  const auto fixed = problem.choices.partitions.find(stages());
  return fixed == problem.choices.partitions.end() ? nullptr : &fixed->second;
}

std::optional<double> PlanTrials::consider(const Partition& partition, const std::vector<bool>& marks) {
  return consider(SegmentedPartition(partition), marks);
}

std::optional<double> PlanTrials::consider(const Partition& partition) {
  if (part_.marks()) return consider(partition, *part_.marks());
  std::optional<double> best;
  std::pair<std::vector<int>, std::vector<bool>> tried;
  for (int count = 0; count < kMostCounts; ++count) {
    std::vector<bool> marks(part_.nodes(), false);
    std::vector<int> segments(partition.stage_count(), 1);
    for (int device = 0; device < part_.devices(); ++device) {
      const DeviceMarks& own = marks_of(partition, device);
      if (own.missing > 0 && !may_be_less(partition, device, own.missing)) return best;
      for (const int node : own.marked) marks[node] = true;
      for (int stage = 0, i = 0; stage < partition.stage_count(); ++stage)
        if (part_.schedule.device_of_stage[stage] == device) segments[stage] = own.segments[i++];
    }
    if (count > 0 && tried == std::pair(segments, marks)) break;
    tried = {segments, marks};
    const auto seconds = consider(in_parts(part_.costs.any(), partition, std::move(segments)), marks);
    if (seconds && (!best || *seconds < *best)) best = seconds;
  }
  return best;
}

int64_t PlanTrials::missing_bytes(const Partition& partition) {
  watch_.check();
  int64_t missing = 0;
  std::vector<StageCost> stages;
  if (part_.marks()) stages = stage_costs(part_.problem.topology, part_.costs, partition, part_.schedule.device_of_stage, *part_.marks());
  for (int device = 0; device < part_.devices(); ++device)
    missing += part_.marks() ? std::max<int64_t>(0, device_peak_bytes(part_.schedule, stages, device) - estimated_room(partition, device))
                             : marks_of(partition, device).missing;
  return missing;
}

/// What the estimate of a device's bytes may come to.
int64_t PlanTrials::estimated_room(const Partition& stages, int device) const {
  const auto& problem = part_.problem;
  const int64_t budget = problem.budgets[device];
  const int64_t error = problem.counted ? problem.counted->error(part_.schedule, stages, device) : 0;
  const bool is_beyond_all = error < 0 && budget > INT64_MAX + error;  // as an unlimited budget is
  return is_beyond_all ? INT64_MAX : budget - error;
}

/// Whether a count may show that a device which lacks bytes by the estimate does not.
bool PlanTrials::may_be_less(const Partition& stages, int device, int64_t missing) const {
  const auto* counted = part_.problem.counted;
  return counted && !counted->knows(part_.schedule, stages, device) &&
         static_cast<double>(missing) < (kSlack * kSlack - 1) * static_cast<double>(part_.problem.budgets[device]);
}

const DeviceMarks& PlanTrials::marks_of(const Partition& stages, int device) {
  std::vector<int> key{device};
  for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++])
    if (part_.schedule.device_of_stage[stage] == device) key.insert(key.end(), {first, stages.sizes[stage]});
  Chosen& chosen = marks_[key];
  if (const int64_t room = estimated_room(stages, device); room != chosen.room)
    chosen = {room, least_recomputation(part_.problem, part_.costs, part_.schedule, stages, device, room, watch_)};
  return chosen.marks;
}

std::optional<double> PlanTrials::consider(const SegmentedPartition& cut, const std::vector<bool>& marks) {
  watch_.check();
  const auto& [problem, family, costs, named] = part_;
  const Schedule schedule = in_segments(named, cut.segments_of_stage());
  const auto stages = stage_costs(problem.topology, costs, cut.segments(), schedule.device_of_stage, marks);
  if (is_slower_than_best(schedule, stages)) return kInfinity;
  FoundPlan plan{named.micro_batches, family, named, cut.segments_of_stage(), cut.segments(), marks, 0, peaks_of(schedule, stages)};
  const Fit fit = fit_of(plan);
  if (fit == Fit::counted_above || (fit == Fit::estimated_above && !notes_ruled_out_)) return std::nullopt;
  const StageCosts chain = chain_of(problem.topology, costs.any(), cut.segments(), stages, problem.links);
  plan.seconds = step_seconds(plan, chain, costs);
  if (fit == Fit::estimated_above) {
    note_ruled_out(plan);
    return std::nullopt;
  }
  const auto searched = part_.is_open() ? faster_order(plan, stages, chain) : std::nullopt;
  if (searched && keeps_to_budgets(*searched, fit_of(*searched)))
    plan = *searched;
  else if (!keeps_to_budgets(plan, fit))
    return std::nullopt;
  ++result_.evaluated;
  const double seconds = plan.seconds;
  if (is_best(seconds)) {
    watch_.found(seconds);
    result_.best = std::move(plan);
  }
  return seconds;
}

void PlanTrials::note_ruled_out(const FoundPlan& plan) {
  if (notes_ruled_out_) result_.ruled_out_seconds = std::min(result_.ruled_out_seconds, plan.seconds);
}

/// The plan in a searched order, if that is faster.
std::optional<FoundPlan> PlanTrials::faster_order(const FoundPlan& plan, const std::vector<StageCost>& stages, const StageCosts& chain) {
  const Schedule& named = part_.schedule;
  const auto caps = byte_caps(part_.problem.budgets, in_segments(named, plan.segments), stages);
  FoundSchedule found =
      search_schedule(whole_chain(chain, plan.segments), named.device_of_stage, named.micro_batches, caps, [this] { watch_.check(); });
  FoundPlan other = plan;
  other.peak_bytes = peaks_of(in_segments(found.schedule, plan.segments), stages);
  other.schedule = std::move(found.schedule);
  other.seconds = step_seconds(other, chain, part_.costs);
  return other.seconds < plan.seconds ? std::optional(std::move(other)) : std::nullopt;
}

bool PlanTrials::is_best(double seconds) const { return !result_.best || seconds < result_.best->seconds; }

bool PlanTrials::is_slower_than_best(const Schedule& schedule, const std::vector<StageCost>& stages) const {
  return !is_best(least_seconds(schedule, stages));
}

PlanTrials::Fit PlanTrials::fit_of(const FoundPlan& plan) const {
  const auto* counted = part_.problem.counted;
  const Partition stages{counted ? SegmentedPartition(plan.partition, plan.segments).stage_sizes() : std::vector<int>()};
  Fit fit = Fit::fits;
  for (int device = 0; device < part_.devices(); ++device) {
    const int64_t budget = part_.problem.budgets[device];
    const auto known = counted ? counted->of(plan, device) : std::nullopt;
    if (known && *known > budget) return Fit::counted_above;
    if (known || fit == Fit::estimated_above) continue;
    const int64_t estimate = plan.peak_bytes[device], corrected = estimate + (counted ? counted->error(plan.schedule, stages, device) : 0);
    const auto [low, high] = std::minmax({static_cast<double>(estimate), static_cast<double>(corrected)});
    const auto most = static_cast<double>(budget);
    if (low > (counted ? kSlack * kSlack : 1) * most)
      fit = Fit::estimated_above;
    else if (counted && kSlack * high > most && fit != Fit::seems_above)
      fit = corrected > budget ? Fit::seems_above : Fit::seems_to_fit;
  }
  return fit;
}

/// Whether counting a plan may change what is chosen: it is near a budget and would be the best, or it would be if the estimate of its order,
/// of which nothing is known, did not make it recompute too much.
bool PlanTrials::is_worth_counting(const FoundPlan& plan, Fit fit) const {
  const auto* counted = part_.problem.counted;
  if (!counted || !counted->may_count() || (fit != Fit::seems_to_fit && fit != Fit::seems_above)) return false;
  const bool recomputes = !part_.marks() && std::ranges::find(plan.rematerialize, true) != plan.rematerialize.end();
  return is_best(plan.seconds) || (recomputes && !counted->knows(plan.schedule));
}

/// `fit`  of the plan, before it is counted.
bool PlanTrials::keeps_to_budgets(const FoundPlan& plan, Fit fit) {
  if (is_worth_counting(plan, fit)) {
    part_.problem.counted->count(plan);
    fit = fit_of(plan);
  }
  if (fit == Fit::seems_above) note_ruled_out(plan);
  return fit == Fit::fits || fit == Fit::seems_to_fit;
}

}  // namespace sluice::parallel
