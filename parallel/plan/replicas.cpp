#include "parallel/plan/replicas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "core/device_speeds.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/predict.h"
#include "parallel/run/device_links.h"
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

/// What the replica with most micro-batches has of it all, on the devices of the first one.
struct FirstReplica {
  std::vector<DevicePtr> devices;
  PlanOptions options;
};

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

/// With what is left of the time.
PlanOptions within(PlanOptions options, const SearchWatch& watch) {
  constexpr double kAtOnce = 1e-3;  // 0 would be no limit
  if (options.search_seconds > 0) options.search_seconds = std::max(watch.seconds_left(), kAtOnce);
  return options;
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

Prediction predicted_step(const layers::Graph& graph, const Plan& plan, const PlanOptions& options) {
  return predict(graph, plan, optimizer_of(options), options.batch, nominal_speeds_of(plan.devices, plan.precision));
}

/// The search of one replica's plan does not know of the exchange, beside which fewer and larger micro-batches may be faster: they are tried
/// as long as the whole step gets shorter.
Plan plan_whole_steps(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas,
                      ReplicaDevices which) {
  const SearchWatch watch(options.search_seconds);
  Plan best = plan_with(graph, devices, options, replicas, which);
  if (replicas == 1 || options.micro_batches.given() || options.schedule.fixed()) return best;
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
  return best;
}

/// Those that are worth trying.
std::vector<ReplicaDevices> ways_of(const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas) {
  if (const auto* fixed = options.replica_devices.given()) return {*fixed};
  const auto is_in_another_host = [&](const auto& device) { return device->options().host != devices[0]->options().host; };
  const bool is_one = replicas == 1 || replicas == static_cast<int>(devices.size());
  const bool are_alike = one_of_each_kind(devices).size() == 1 && std::ranges::none_of(devices, is_in_another_host);
  if (is_one || are_alike) return {ReplicaDevices::together};
  return {ReplicaDevices::together, ReplicaDevices::apart};
}

/// Plans the numbers of replicas that may be fastest, and takes the fastest.
class ReplicaChooser {
 public:
  ReplicaChooser(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options)
      : graph_(graph), devices_(devices), options_(options), watch_(options.search_seconds, options.progress) {}

  /// Of `least` to `most` replicas.
  Plan choose(int least, int most) {
    const int count = static_cast<int>(devices_.size());
    for (const int replicas : replica_numbers(count)) {
      if (replicas < least || replicas > most || !fault_of(replication_of(options_, replicas)).empty()) continue;
      for (const ReplicaDevices which : ways_of(devices_, options_, replicas)) add(replicas, which);
    }
    try_all();
    std::erase_if(candidates_, [](const Candidate& one) { return !one.plan && !one.trial.is_bound; });
    if (candidates_.empty() && refusal_) std::rethrow_exception(refusal_);
    require(!candidates_.empty(), "PlanOptions::replicas: needs a number of replicas for ", count, " devices and ", options_.fold_blocks,
            " fold blocks, and there is none; set another number of devices or fold blocks");
    for (const Candidate& candidate : candidates_)
      if (options_.tried) options_.tried(candidate.trial);
    Plan plan = std::move(*best().plan);
    plan.is_out_of_time = plan.is_out_of_time || watch_.is_over();
    return plan;
  }

 private:
  struct Candidate {
    ReplicaTrial trial;
    std::optional<Plan> plan{};
  };

  /// A node, and its part of the seconds of all.
  struct NodeShare {
    int node = 0;
    double share = 0;
  };

  /// Numbers of replicas that cannot be planned are left out: too few nodes, another schedule of the user's own, ...
  void add(int replicas, ReplicaDevices which) {
    const int stages = static_cast<int>(devices_.size()) / replicas;
    try {
      const FirstReplica first = first_replica(devices_, options_, replicas, which);
      ReplicaTrial trial{.replicas = replicas, .devices_of_replica = stages, .replica_devices = which, .is_bound = true};
      trial.step_seconds = least_exchange(replicas, which);
      try {
        const StepBound least = step_bound(graph_, first.devices, first.options, options_.batch, replicas, watch_);
        trial.step_seconds += least.seconds;
        trial.obstacle = too_large_a_node(largest_node(least.costs.any()), stages);
      } catch (const SearchTimeOver&) {  // the exchange is a bound as well
      }
      candidates_.push_back({std::move(trial)});
    } catch (const UsageError&) {
      refuse();
    }
  }

  void refuse() {
    if (!refusal_) refusal_ = std::current_exception();
  }

  /// Whether a replica of one device is one stage, which sends its gradients behind all of its work: each of several stages and segments sends
  /// its own behind its last backward (lower.cpp).
  bool is_one_stage() const {
    const auto* named = options_.schedule.named();
    const bool has_one_a_device = named && *named != NamedSchedule::interleaved && *named != NamedSchedule::zb_v;
    return has_one_a_device && !options_.remat.is_open();
  }

  /// Elements that are trained, and so exchanged.
  double trained_elements() const {
    double count = 0;
    for (const auto& parameter : graph_.parameters())
      if (!parameter.frozen) count += static_cast<double>(parameter.spec.shape.elements());
    return count;
  }

  /// What no exchange between replicas takes less than: after the last gradient the weights go from every device to its stage's replicas,
  /// and where a replica is one stage, its gradients went the same way before. Some stage has at least the mean of the parameters, and some
  /// replica of it at least the mean of its shards: whichever device that is.
  double least_exchange(int replicas, ReplicaDevices which) const {
    if (replicas == 1) return 0;
    const Links links = links_of(devices_, nominal_speeds_of(devices_, options_.precision));
    const int stages = static_cast<int>(devices_.size()) / replicas;
    const double shard = trained_elements() / stages / replicas;
    const double result_bytes =
        shards_optimizer(options_) ? static_cast<double>(size_of(working_dtype(options_.precision))) : sizeof(float);
    const double bytes = shard * (result_bytes + (stages == 1 && is_one_stage() ? sizeof(float) : 0));
    double least = kInfinity;
    for (int stage = 0; stage < stages; ++stage)
      for (int replica = 0; replica < replicas; ++replica) {
        const auto device = [&](int number) { return device_of_replica(which, stage, number, replicas, stages); };
        double seconds = 0;
        std::array<int, 2> others{};  // in the same host, and in others
        for (int other = 0; other < replicas; ++other) {
          if (other == replica) continue;
          const int sharing = ++others[links.are_apart(device(replica), device(other)) ? 1 : 0];
          seconds = std::max(seconds, sharing * links.between(device(replica), device(other)).wire_seconds(bytes));
        }
        least = std::min(least, seconds);
      }
    return least;
  }

  /// Those that may be fastest first, so that most others need not be tried.
  void try_all() {
    std::vector<Candidate*> order;
    for (Candidate& candidate : candidates_) order.push_back(&candidate);
    std::ranges::stable_sort(order, {}, [](const Candidate* one) { return one->trial.step_seconds; });
    double fastest = kInfinity;
    for (Candidate* candidate : order) {
      ReplicaTrial& trial = candidate->trial;
      if (trial.step_seconds >= fastest || (watch_.is_over() && fastest < kInfinity)) continue;
      trial.is_bound = false;
      try {
        Plan plan = plan_whole_steps(graph_, devices_, within(options_, watch_), trial.replicas, trial.replica_devices);
        note(trial, plan);
        candidate->plan = std::move(plan);
      } catch (const UsageError&) {  // also of a model that replicas cannot train
        refuse();
        continue;
      }
      if (trial.fits) fastest = std::min(fastest, trial.step_seconds);
    }
  }

  void note(ReplicaTrial& trial, const Plan& plan) const {
    const Prediction prediction = predicted_step(graph_, plan, options_);
    trial.fits = prediction.fits;
    trial.step_seconds = prediction.step_seconds;
    trial.bubble = prediction.bubble;
    for (const auto& device : prediction.devices) trial.peak_bytes = std::max(trial.peak_bytes, device.peak_bytes);
    if (!prediction.fits) trial.obstacle = prediction.reason;
    if (prediction.fits && trial.obstacle.empty()) trial.obstacle = waits(prediction);
  }

  /// Empty for one that a stage may have.
  std::string too_large_a_node(const NodeShare& largest, int stages) const {
    if (stages == 1 || largest.share * stages <= 1) return {};
    return join("node '", graph_.nodes()[largest.node].name, "' is ", percent(largest.share), " of the work of ", stages, " devices");
  }

  /// For what follows the micro-batches, or for each other.
  static std::string waits(const Prediction& prediction) {
    double end = 0;
    for (const TraceEvent& event : prediction.trace.events)
      if (event.action.micro_batch >= 0 && !event.action.is_transfer()) end = std::max(end, event.end);
    const double rest = 1 - end / prediction.step_seconds;
    if (rest > prediction.bubble / 2) return join("what follows the micro-batches takes ", percent(rest), " of the step");
    return join("devices wait for ", percent(prediction.bubble), " of the step");
  }

  static std::string percent(double share) { return join(std::lround(100 * share), " %"); }

  static NodeShare largest_node(const ModelCost& model) {
    NodeShare largest;
    double all = 0, most = 0;
    for (size_t node = 0; node < model.nodes.size(); ++node) {
      const double seconds = model.nodes[node].forward + model.nodes[node].backward;
      all += seconds;
      if (seconds > most) largest.node = static_cast<int>(node);
      most = std::max(most, seconds);
    }
    largest.share = all > 0 ? most / all : 0;
    return largest;
  }

  /// Of those that fit the fastest, with fewer replicas where they are equal; where none fits, the one that holds least.
  Candidate& best() {
    Candidate *best = nullptr, *least = nullptr;
    for (Candidate& candidate : candidates_) {
      if (!candidate.plan) continue;
      const ReplicaTrial& trial = candidate.trial;
      if (trial.fits && (!best || trial.step_seconds < best->trial.step_seconds)) best = &candidate;
      if (!least || trial.peak_bytes < least->trial.peak_bytes) least = &candidate;
    }
    return best ? *best : *least;
  }

  const layers::Graph& graph_;
  const std::vector<DevicePtr>& devices_;
  const PlanOptions& options_;
  SearchWatch watch_;
  std::vector<Candidate> candidates_;
  std::exception_ptr refusal_;
};

std::string layout_text(const ReplicaTrial& trial) {
  const std::string stages = join(trial.devices_of_replica, trial.devices_of_replica == 1 ? " device" : " devices");
  if (trial.replicas == 1) return "one pipeline of " + stages;
  return join(trial.replicas, " replicas of ", stages);
}

}  // namespace

std::vector<int> replica_numbers(int devices) {
  std::vector<int> numbers;
  for (int replicas = 1; replicas <= devices; ++replicas)
    if (devices % replicas == 0) numbers.push_back(replicas);
  return numbers;
}

Plan plan_of_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int replicas) {
  const std::string fault = fault_of(replication_of(options, replicas));
  require(fault.empty(), "PlanOptions::replicas: ", fault);
  require(!devices.empty() && devices.size() % static_cast<size_t>(replicas) == 0,
          "PlanOptions::replicas: needs equally many devices for each of the ", replicas, " replicas, got ", devices.size(),
          "; give a multiple of ", replicas);
  const auto ways = ways_of(devices, options, replicas);
  if (ways.size() > 1) return plan_of_open_replicas(graph, devices, options, replicas, replicas);
  return plan_whole_steps(graph, devices, options, replicas, ways[0]);
}

Plan plan_of_open_replicas(const layers::Graph& graph, const std::vector<DevicePtr>& devices, const PlanOptions& options, int least,
                           int most) {
  require(!devices.empty(), "PlanOptions::replicas: needs at least one device, got none");
  return ReplicaChooser(graph, devices, options).choose(least, most);
}

std::string why_so_many_replicas(const std::vector<ReplicaTrial>& trials) {
  const ReplicaTrial *best = nullptr, *longest = nullptr;
  for (const ReplicaTrial& trial : trials) {
    if (trial.fits && !trial.is_bound && (!best || trial.step_seconds < best->step_seconds)) best = &trial;
    if (!longest || trial.devices_of_replica > longest->devices_of_replica) longest = &trial;
  }
  if (!best || trials.size() < 2) return {};
  if (best->replicas == longest->replicas) return join(layout_text(*best), ": the fastest of ", trials.size(), " layouts");
  if (!longest->fits && !longest->is_bound) return join(layout_text(*best), ", as ", layout_text(*longest), " does not fit");
  return join(layout_text(*best), ": ", longest->is_bound ? "at least " : "",
              std::round(100 * longest->step_seconds / best->step_seconds) / 100, " times as fast as ", layout_text(*longest),
              longest->obstacle.empty() ? "" : ", because ", longest->obstacle);
}

}  // namespace sluice::parallel
