#include "parallel/plan/cut_oracle.h"

#include <algorithm>
#include <numeric>

namespace sluice::parallel {

namespace {

/// Bytes that cross each place before a node: values made earlier and read there or later.
std::vector<double> crossing_bytes(const Topology& topology, const ModelCost& model) {
  const int nodes = topology.node_count();
  std::vector<int> last_use(topology.value_count(), -1);
  for (int node = 0; node < nodes; ++node)
    for (int value : topology.nodes[node].inputs) last_use[value] = node;
  std::vector<double> change(nodes + 1, 0.0);
  for (int node = 0; node < nodes; ++node) {
    const int last = last_use[topology.value_of(node)];
    if (last <= node) continue;
    const auto bytes = static_cast<double>(model.nodes[node].output_bytes);
    change[node + 1] += bytes;
    change[last + 1 <= nodes ? last + 1 : nodes] -= bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

/// By node: some tape holds the value that it makes.
std::vector<bool> outputs_on_tapes(const Topology& topology, const ModelCost& model) {
  std::vector<bool> on_tape(topology.node_count());
  for (int node = 0; node < topology.node_count(); ++node) {
    if (model.nodes[node].keeps_output) on_tape[node] = true;
    for (size_t i = 0; i < topology.nodes[node].inputs.size(); ++i) {
      const int maker = topology.node_of(topology.nodes[node].inputs[i]);
      if (maker >= 0 && model.nodes[node].keeps_input[i]) on_tape[maker] = true;
    }
  }
  return on_tape;
}

bool splits(const Schedule& schedule) {
  for (const auto& order : schedule.devices)
    for (const auto& action : order)
      if (action.kind == Compute::weight_gradient) return true;
  return false;
}

}  // namespace

CutOracle::Nodes::Nodes(const Topology& topology, const ModelCost& model, bool split, const std::vector<bool>& fixed) {
  const auto on_tape = outputs_on_tapes(topology, model);
  for (size_t node = 0; node < model.nodes.size(); ++node) {
    const NodeCost& cost = model.nodes[node];
    work.add(cost.forward + (split ? cost.input_gradient + cost.weight_gradient : cost.backward) + (fixed[node] ? cost.recompute : 0));
    kept.push_back(static_cast<double>(cost.tape_bytes + (on_tape[node] ? cost.output_bytes : 0)));
    spared.push_back(std::max(0.0, kept.back() - static_cast<double>(cost.output_bytes)));
    recompute.push_back(cost.recompute);
    passing.push_back(static_cast<double>(std::max(cost.forward_peak_bytes - cost.tape_bytes, cost.backward_peak_bytes)));
    state.add(static_cast<double>(cost.state_bytes));
    always.add(fixed[node] ? kept.back() : 0);
    in_flight.add(fixed[node] ? 0 : kept.back());
    deferred.add(static_cast<double>(cost.deferred_bytes));
    spare.add(spared.back());
  }
  work.keep_sums();
  cheapest_first.resize(model.nodes.size());
  std::iota(cheapest_first.begin(), cheapest_first.end(), 0);
  std::ranges::stable_sort(cheapest_first, {}, [&](int node) { return kept[node] > 0 ? recompute[node] / kept[node] : 1e300; });
  rank.resize(model.nodes.size());
  for (size_t i = 0; i < cheapest_first.size(); ++i) rank[cheapest_first[i]] = static_cast<int>(i);
}

CutOracle::CutOracle(const PlanProblem& problem, const ModelCosts& costs, const Schedule& schedule, const Estimate& estimate)
    : arriving_(crossing_bytes(problem.topology, costs.any())),
      may_choose_(!problem.choices.rematerialize),
      fine_(estimate.fine),
      waits_(estimate.waits) {
  const bool split = splits(schedule);
  const auto fixed = problem.choices.rematerialize.value_or(std::vector<bool>(arriving_.size(), false));
  for (const ModelCost& kind : costs.kinds) kinds_.emplace_back(problem.topology, kind, split, fixed);
  std::vector<int> stages_on(schedule.device_count(), 0);
  for (const int device : schedule.device_of_stage) ++stages_on[device];
  const InFlight flight = micro_batches_in_flight(schedule);
  for (int stage = 0; stage < schedule.stage_count(); ++stage) {
    const int device = schedule.device_of_stage[stage];
    kind_.push_back(costs.kind_of_device.empty() ? 0 : costs.kind_of_device[device]);
    limit_.push_back(estimate.share * static_cast<double>(problem.budgets[device]) / stages_on[device]);
    in_flight_.push_back(flight.forwards[stage]);
    waiting_.push_back(flight.deferred[stage]);
    const auto& devices = schedule.device_of_stage;
    const auto link_to = [&](int other) { return devices[other] == device ? Link{} : problem.links.between(device, devices[other]); };
    before_.push_back(stage > 0 ? link_to(stage - 1) : Link{});
    after_.push_back(stage + 1 < schedule.stage_count() ? link_to(stage + 1) : Link{});
  }
}

void CutOracle::SecondsOver::keep_sums() {
  constexpr size_t kMostNodes = 1024;
  if (of_node_.size() > kMostNodes) return;
  for (size_t first = 0; first < of_node_.size(); ++first) {
    auto& sums = sums_.emplace_back(1, 0.0);
    for (size_t node = first; node < of_node_.size(); ++node) sums.push_back(sums.back() + of_node_[node]);
  }
}

double CutOracle::SecondsOver::over(int first, int end) const {
  return sums_.empty() ? std::accumulate(of_node_.begin() + first, of_node_.begin() + end, 0.0) : sums_[first][end - first];
}

double CutOracle::least_seconds(int stage, int first, int end) const { return kinds_[kind_[stage]].work.over(first, end); }

std::optional<double> CutOracle::seconds(int stage, int first, int end) const {
  const Nodes& nodes = kinds_[kind_[stage]];
  const double bytes = least_bytes(nodes, stage, first, end);
  const double can_save = !may_choose_ ? 0
                          : fine_      ? in_flight_[stage] * nodes.spare.over(first, end)
                                       : (in_flight_[stage] - 1) * nodes.in_flight.over(first, end);
  if (bytes - can_save > limit_[stage]) return std::nullopt;
  const double missing = bytes + passing_bytes(nodes, first, end) - limit_[stage];
  const double work = least_seconds(stage, first, end) + waiting_seconds(stage, first, end);
  if (missing <= 0) return work;
  const auto again = may_choose_ ? recompute_seconds(nodes, stage, first, end, missing) : std::nullopt;
  return again ? std::optional(work + *again) : std::nullopt;
}

/// Without what nodes need in passing.
double CutOracle::least_bytes(const Nodes& nodes, int stage, int first, int end) const {
  return nodes.state.over(first, end) + nodes.always.over(first, end) +
         in_flight_[stage] * (arriving_[first] + nodes.in_flight.over(first, end)) + waiting_[stage] * nodes.deferred.over(first, end);
}

double CutOracle::passing_bytes(const Nodes& nodes, int first, int end) const {
  const auto most = [&](const std::vector<double>& bytes) {
    return std::max(0.0, *std::max_element(bytes.begin() + first, bytes.begin() + end));
  };
  return most(nodes.passing) + (fine_ ? most(nodes.kept) : 0);
}

/// For what crosses both ends of the stage, there and back.
double CutOracle::waiting_seconds(int stage, int first, int end) const {
  if (waits_ == 0) return 0;
  const double after = end < static_cast<int>(arriving_.size()) ? after_[stage].wire_seconds(arriving_[end]) : 0;
  return waits_ * 2 * (before_[stage].wire_seconds(arriving_[first]) + after);
}

/// Of as many nodes, the cheapest first, as save the missing bytes; nothing when all of them do not.
std::optional<double> CutOracle::recompute_seconds(const Nodes& nodes, int stage, int first, int end, double missing) const {
  std::vector<int> ranks(nodes.rank.begin() + first, nodes.rank.begin() + end);
  std::ranges::sort(ranks);
  double seconds = 0;
  for (const int rank : ranks) {
    const int node = nodes.cheapest_first[rank];
    missing -= saving(nodes, stage, node);
    seconds += nodes.recompute[node];
    if (missing <= 0) return seconds;
  }
  return std::nullopt;
}

}  // namespace sluice::parallel
