#include "parallel/cut_oracle.h"

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

CutOracle::CutOracle(const PlanProblem& problem, const ModelCost& model, const Schedule& schedule, double share, bool fine)
    : arriving_(crossing_bytes(problem.topology, model)), may_choose_(!problem.choices.rematerialize), fine_(fine) {
  const bool split = splits(schedule);
  const auto on_tape = outputs_on_tapes(problem.topology, model);
  for (size_t node = 0; node < model.nodes.size(); ++node) {
    const NodeCost& cost = model.nodes[node];
    work_.push_back(cost.forward + (split ? cost.input_gradient + cost.weight_gradient : cost.backward));
    state_.push_back(static_cast<double>(cost.state_bytes));
    kept_.push_back(static_cast<double>(cost.tape_bytes + (on_tape[node] ? cost.output_bytes : 0)));
    kept_again_.push_back(static_cast<double>(cost.output_bytes));
    deferred_.push_back(static_cast<double>(cost.deferred_bytes));
    recompute_.push_back(cost.recompute);
    passing_.push_back(static_cast<double>(std::max(cost.forward_peak_bytes - cost.tape_bytes, cost.backward_peak_bytes)));
  }
  fixed_ = problem.choices.rematerialize.value_or(std::vector<bool>(model.nodes.size(), false));
  cheapest_first_.resize(model.nodes.size());
  std::iota(cheapest_first_.begin(), cheapest_first_.end(), 0);
  std::ranges::stable_sort(cheapest_first_, {}, [&](int node) { return kept_[node] > 0 ? recompute_[node] / kept_[node] : 1e300; });
  rank_.resize(model.nodes.size());
  for (size_t i = 0; i < cheapest_first_.size(); ++i) rank_[cheapest_first_[i]] = static_cast<int>(i);

  const InFlight flight = micro_batches_in_flight(schedule);
  for (int stage = 0; stage < schedule.stage_count(); ++stage) {
    const int device = schedule.device_of_stage[stage];
    const auto stages = std::ranges::count(schedule.device_of_stage, device);
    limit_.push_back(share * static_cast<double>(problem.budgets[device]) / static_cast<double>(stages));
    in_flight_.push_back(flight.forwards[stage]);
    waiting_.push_back(flight.deferred[stage]);
  }
}

std::optional<double> CutOracle::seconds(int stage, int first, int end) const {
  const double flight = in_flight_[stage];
  double work = 0, bytes = flight * arriving_[first], passing = 0;
  for (int node = first; node < end; ++node) {
    work += work_[node] + (fixed_[node] ? recompute_[node] : 0);
    bytes += state_[node] + (fixed_[node] ? 1 : flight) * kept_[node] + waiting_[stage] * deferred_[node];
    passing = std::max(passing, passing_[node]);
  }
  if (fine_) passing += *std::max_element(kept_.begin() + first, kept_.begin() + end);
  double missing = bytes + passing - limit_[stage];
  if (missing <= 0) return work;
  if (!may_choose_ || (flight <= 1 && !fine_)) return std::nullopt;
  std::vector<int> ranks;
  for (int node = first; node < end; ++node) ranks.push_back(rank_[node]);
  std::ranges::sort(ranks);
  for (const int rank : ranks) {
    const int node = cheapest_first_[rank];
    missing -= fine_ ? flight * std::max(0.0, kept_[node] - kept_again_[node]) : (flight - 1) * kept_[node];
    work += recompute_[node];
    if (missing <= 0) return work;
  }
  return std::nullopt;
}

}  // namespace sluice::parallel
