#include "parallel/plan/plan_trials.h"

#include <algorithm>
#include <utility>

#include "parallel/plan/stage_chain.h"

namespace sluice::parallel {

namespace {

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
  std::vector<bool> marks(part_.nodes(), false);
  std::vector<int> segments(partition.stage_count(), 1);
  for (int device = 0; device < part_.devices(); ++device) {
    const DeviceMarks& own = marks_of(partition, device);
    if (own.missing > 0) return std::nullopt;
    for (const int node : own.marked) marks[node] = true;
    for (int stage = 0, i = 0; stage < partition.stage_count(); ++stage)
      if (part_.schedule.device_of_stage[stage] == device) segments[stage] = own.segments[i++];
  }
  return consider(in_parts(part_.costs.any(), partition, std::move(segments)), marks);
}

int64_t PlanTrials::missing_bytes(const Partition& partition) {
  watch_.check();
  int64_t missing = 0;
  if (part_.marks()) {
    const auto stages = stage_costs(part_.problem.topology, part_.costs, partition, part_.schedule.device_of_stage, *part_.marks());
    const auto peaks = peaks_of(part_.schedule, stages);
    for (size_t device = 0; device < peaks.size(); ++device) missing += std::max<int64_t>(0, peaks[device] - part_.problem.budgets[device]);
    return missing;
  }
  for (int device = 0; device < part_.devices(); ++device) missing += marks_of(partition, device).missing;
  return missing;
}

const DeviceMarks& PlanTrials::marks_of(const Partition& stages, int device) {
  std::vector<int> key{device};
  for (int stage = 0, first = 0; stage < stages.stage_count(); first += stages.sizes[stage++])
    if (part_.schedule.device_of_stage[stage] == device) key.insert(key.end(), {first, stages.sizes[stage]});
  const auto known = marks_.find(key);
  if (known != marks_.end()) return known->second;
  return marks_.emplace(key, least_recomputation(part_.problem, part_.costs, part_.schedule, stages, device, watch_)).first->second;
}

std::optional<double> PlanTrials::consider(const SegmentedPartition& cut, const std::vector<bool>& marks) {
  watch_.check();
  const auto& [problem, family, costs, named] = part_;
  const Schedule schedule = in_segments(named, cut.segments_of_stage());
  const auto stages = stage_costs(problem.topology, costs, cut.segments(), schedule.device_of_stage, marks);
  if (is_slower_than_best(schedule, stages)) return kInfinity;
  FoundPlan plan{named.micro_batches, family, named, cut.segments_of_stage(), cut.segments(), marks, 0, peaks_of(schedule, stages)};
  const bool fits = keeps_to_budgets(plan);
  if (!fits && !notes_ruled_out_) return std::nullopt;
  const StageCosts chain = chain_of(problem.topology, costs.any(), cut.segments(), stages, problem.links);
  plan.seconds = step_seconds(plan, chain, costs);
  if (!fits) {
    result_.ruled_out_seconds = std::min(result_.ruled_out_seconds, plan.seconds);
    return std::nullopt;
  }
  if (part_.is_open()) take_faster_order(plan, stages, chain);
  if (std::ranges::find(problem.excluded, plan) != problem.excluded.end()) return std::nullopt;
  ++result_.evaluated;
  const double seconds = plan.seconds;
  if (!result_.best || seconds < result_.best->seconds) {
    watch_.found(seconds);
    result_.best = std::move(plan);
  }
  return seconds;
}

/// Replaces the order of the plan by a searched one that keeps to the budgets too, if that is faster.
void PlanTrials::take_faster_order(FoundPlan& plan, const std::vector<StageCost>& stages, const StageCosts& chain) {
  const Schedule& named = part_.schedule;
  const auto caps = byte_caps(part_.problem.budgets, in_segments(named, plan.segments), stages);
  FoundSchedule found =
      search_schedule(whole_chain(chain, plan.segments), named.device_of_stage, named.micro_batches, caps, [this] { watch_.check(); });
  FoundPlan other = plan;
  other.peak_bytes = peaks_of(in_segments(found.schedule, plan.segments), stages);
  other.schedule = std::move(found.schedule);
  if (!keeps_to_budgets(other)) return;
  other.seconds = step_seconds(other, chain, part_.costs);
  if (other.seconds < plan.seconds) plan = std::move(other);
}

bool PlanTrials::is_slower_than_best(const Schedule& schedule, const std::vector<StageCost>& stages) const {
  return result_.best && least_seconds(schedule, stages) >= result_.best->seconds;
}

bool PlanTrials::keeps_to_budgets(const FoundPlan& plan) const {
  return std::ranges::equal(plan.peak_bytes, part_.problem.budgets, std::ranges::less_equal());
}

}  // namespace sluice::parallel
