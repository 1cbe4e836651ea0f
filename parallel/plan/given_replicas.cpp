#include "parallel/plan/given_replicas.h"

#include <algorithm>
#include <utility>

#include "core/device_speeds.h"
#include "parallel/plan/choose.h"
#include "parallel/run/stage.h"

namespace sluice::parallel {

namespace {

/// What a replica has of it at most.
int64_t share_of(int64_t all, int replicas) { return (all + replicas - 1) / replicas; }

/// The user's own schedule is for the micro-batches of each replica.
void require_micro_batches_of(const Schedule& own, const PlanOptions& options, int replicas) {
  const int64_t all = int64_t{own.micro_batches} * replicas;
  const int* number = options.micro_batches.given();
  require(!number || *number == all, "PlanOptions::micro_batches: needs ", all, ", as schedule ", own.name, " is for ", own.micro_batches,
          " of each of the ", replicas, " replicas, got ", number ? *number : 0, "; set it to kOpen, or give another schedule");
  require(options.batch >= all, "PlanOptions::batch: needs at least ", all, " samples, as schedule ", own.name, " is for ",
          own.micro_batches, " micro-batches of each of the ", replicas, " replicas, got ", options.batch,
          "; give a larger mini-batch or another schedule");
}

}  // namespace

FirstReplica first_replica(const std::vector<DevicePtr>& devices, PlanOptions options, int replicas, ReplicaDevices which) {
  require(options.batch >= replicas, "PlanOptions::batch: needs at least one sample for each of the ", replicas, " replicas, got ",
          options.batch, "; give a larger mini-batch or fewer replicas");
  if (const Schedule* own = options.schedule.fixed()) require_micro_batches_of(*own, options, replicas);
  options.replicas = 1;
  options.fold_blocks = 0;
  const int64_t samples = std::exchange(options.batch, share_of(options.batch, replicas));
  if (const int* number = options.micro_batches.given()) {
    require(*number >= replicas, "PlanOptions::micro_batches: needs at least one for each of the ", replicas, " replicas, got ", *number,
            "; give more micro-batches or fewer replicas");
    require_few_enough(*number, static_cast<int>(devices.size()) / replicas, "PlanOptions::micro_batches");
    const int all = *number, own = static_cast<int>(share_of(all, replicas));
    micro_batch_bounds(samples, all);
    options.batch = std::min(samples, own * share_of(samples, all));  // in micro-batches as large as the largest of all replicas
    options.micro_batches = own;
  }
  FirstReplica first{{}, std::move(options)};
  const int each = static_cast<int>(devices.size()) / replicas;
  for (int device = 0; device < each; ++device) first.devices.push_back(devices[device_of_replica(which, device, 0, replicas, each)]);
  return first;
}

bool shards_optimizer(const PlanOptions& options) { return options.shards_optimizer && !optimizer_of(options).needs_whole_parameters(); }

Replication replication_of(const PlanOptions& options, int replicas) {
  return {replicas, options.fold_blocks == 0 ? replicas : options.fold_blocks, shards_optimizer(options)};
}

PlanOptions within(PlanOptions options, const SearchWatch& watch) {
  constexpr double kAtOnce = 1e-3;  // 0 would be no limit
  if (options.search_seconds > 0) options.search_seconds = std::max(watch.seconds_left(), kAtOnce);
  return options;
}

Prediction predicted_step(const layers::Graph& graph, const Plan& plan, const PlanOptions& options) {
  return predict(graph, plan, optimizer_of(options), options.batch, nominal_speeds_of(plan.devices, plan.precision));
}

namespace {

/// The times on all kinds of `devices`: those of the first replica's, and those that kinds which only other replicas have are asked for.
std::vector<std::vector<NodeTimes>> times_of_all(const Plan& first, const std::vector<DevicePtr>& devices, const PlanOptions& of_first) {
  std::vector<std::vector<NodeTimes>> times;
  if (first.times.empty()) return times;
  std::vector<DevicePtr> both = first.devices;  // in front, so that their kinds have the numbers that they have in the plan
  for (const auto& device : one_of_each_kind(devices)) both.push_back(device);
  const auto kinds = device_kinds(both);
  for (size_t i = first.devices.size(); i < both.size(); ++i) {
    const auto kind = static_cast<size_t>(kinds[i]);
    times.push_back(kind < first.times.size() ? first.times[kind]
                                              : of_first.times((of_first.batch + first.micro_batches - 1) / first.micro_batches, both[i]));
  }
  return times;
}

/// Makes the first replica's plan that of all.
Plan for_all(Plan plan, const PlanOptions& of_first, const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas,
             ReplicaDevices which) {
  plan.times = times_of_all(plan, devices, of_first);
  const int* number = options.micro_batches.given();
  const int64_t most = std::min(options.batch, kMostStageRuns / plan.partition.stage_count());
  plan.micro_batches = number ? *number : static_cast<int>(std::min(int64_t{plan.micro_batches} * replicas, most));
  micro_batch_bounds(options.batch, plan.micro_batches);
  if (options.memory != kUnlimited)
    for (const auto& device : devices) device->set_budget_bytes(options.memory);
  plan.devices = devices;
  plan.replica_devices = which;
  plan.replication = replication_of(options, replicas);
  plan.bound_seconds = 0;
  plan.is_exact = false;
  return plan;
}

/// The least of what `of` says of a device's counterparts in all replicas, by device of a replica.
template <class Of>
std::vector<int64_t> least_of_replicas(int replicas, ReplicaDevices which, int each, Of of) {
  std::vector<int64_t> least(static_cast<size_t>(each), kUnlimited);
  for (int device = 0; device < each; ++device)
    for (int replica = 0; replica < replicas; ++replica)
      least[device] = std::min<int64_t>(least[device], of(device_of_replica(which, device, replica, replicas, each)));
  return least;
}

/// One replica is planned, for the least budgets of all. What the exchange with the others takes beside it is counted, and where it is too
/// much, more and more is held back for it: the same plan may have had room for all but the bytes that lack.
Plan plan_with(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas,
               ReplicaDevices which) {
  constexpr int kMostCorrections = 3;
  const FirstReplica first = first_replica(devices, options, replicas, which);
  if (replicas == 1)
    return for_all(plan_of_pipeline(graph, first.devices, first.options), first.options, devices, options, replicas, which);
  const auto least = [&](auto of) { return least_of_replicas(replicas, which, static_cast<int>(first.devices.size()), of); };
  const auto budget = [&](int device) { return options.memory == kUnlimited ? devices[device]->budget_bytes() : options.memory; };
  ReplicaShare share{shards_optimizer(options) ? replicas : 1, least(budget)};
  const bool is_bounded = std::ranges::any_of(share.budgets, [](int64_t bytes) { return bytes != kUnlimited; });
  std::optional<Plan> best;
  for (int round = 0;; ++round) {
    const Plan of_first = plan_of_pipeline(graph, first.devices, first.options, share);
    Plan all = for_all(of_first, first.options, devices, options, replicas, which);
    if (!is_bounded) return all;
    const auto peaks = counted_peak_bytes(graph, all, optimizer_of(options), options.batch);
    const auto room = least([&](int device) { return budget(device) - peaks[static_cast<size_t>(device)]; });
    if (std::ranges::all_of(room, [](int64_t bytes) { return bytes >= 0; })) return all;
    if (!best) best = std::move(all);
    if (round == kMostCorrections || of_first.is_out_of_time) return std::move(*best);
    for (size_t device = 0; device < room.size(); ++device)
      if (room[device] < 0)
        share.budgets[device] = std::max<int64_t>(1, share.budgets[device] + room[device] * (int64_t{1} << (2 * round)));
  }
}

}  // namespace

PlanOfReplicas plan_of_given_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options,
                                      int replicas, ReplicaDevices which) {
  const SearchWatch watch(options.search_seconds);
  Plan best = plan_with(graph, devices, options, replicas, which);
  if (replicas == 1 || options.micro_batches.given() || options.schedule.fixed()) return {std::move(best), {}};
  Prediction shortest = predicted_step(graph, best, options);
  while (shortest.fits && best.micro_batches >= 2 * replicas && !best.is_out_of_time) {
    PlanOptions fewer = within(options, watch);
    fewer.micro_batches = best.micro_batches / replicas / 2 * replicas;
    Plan plan = plan_with(graph, devices, fewer, replicas, which);
    Prediction step = predicted_step(graph, plan, options);
    best.is_out_of_time = plan.is_out_of_time;
    if (!step.fits || step.step_seconds >= shortest.step_seconds) break;
    best = std::move(plan), shortest = std::move(step);
  }
  return {std::move(best), std::move(shortest)};
}

}  // namespace sluice::parallel
