#include "parallel/plan/replicas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "core/device_speeds.h"
#include "parallel/plan/choose.h"
#include "parallel/plan/given_replicas.h"
#include "parallel/run/device_links.h"

namespace sluice::parallel {

namespace {

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
        PlanOfReplicas found = plan_of_given_replicas(graph_, devices_, within(options_, watch_), trial.replicas, trial.replica_devices);
        note(trial, found.step ? *found.step : predicted_step(graph_, found.plan, options_));
        candidate->plan = std::move(found.plan);
      } catch (const UsageError&) {  // also of a model that replicas cannot train
        refuse();
        continue;
      }
      if (trial.fits) fastest = std::min(fastest, trial.step_seconds);
    }
  }

  static void note(ReplicaTrial& trial, const Prediction& prediction) {
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
  return plan_of_given_replicas(graph, devices, options, replicas, ways[0]).plan;
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
