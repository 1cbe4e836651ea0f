#include "parallel/plan/remat.h"

#include <algorithm>

namespace sluice::parallel {

namespace {

constexpr int kMostDevicePasses = 24;  // of the last refinement; beyond that it gains next to nothing

class DeviceChoice {
 public:
  DeviceChoice(const Topology& topology, const ModelCost& model, const Schedule& schedule, const Partition& partition, int device,
               std::vector<bool>& marks)
      : topology_(topology), model_(model), schedule_(schedule), partition_(partition), device_(device), marks_(marks) {
    stages_.resize(partition.stage_count());
    for (int stage = 0, first = 0; stage < partition.stage_count(); first += partition.sizes[stage++]) {
      if (schedule.device_of_stage[stage] != device) continue;
      mine_.push_back({stage, first, first + partition.sizes[stage]});
      for (int node = first; node < first + partition.sizes[stage]; ++node) nodes_.push_back(node);
    }
  }

  int64_t choose(int64_t budget) {
    budget_ = budget;
    mark(nodes_, 0);
    if (missing() == 0) return 0;
    const auto by_price = cheapest_first();
    Attempt best = shortest_prefix(by_price);
    if (const Attempt other = shortest_prefix(nodes_); other.is_better_than(best)) best = other;
    marks_ = best.marks;
    if (best.missing > 0) return best.missing;
    drop_what_is_not_needed(by_price);
    return 0;
  }

 private:
  struct StageRange {
    int stage, first, end;
  };
  struct Attempt {
    std::vector<bool> marks;
    int64_t missing = 0;
    double seconds = 0;
    bool is_better_than(const Attempt& other) const {
      return missing != other.missing ? missing < other.missing : missing == 0 && seconds < other.seconds;
    }
  };

  int64_t missing() {
    for (const auto& [stage, first, end] : mine_) stages_[stage] = stage_cost(topology_, model_, first, end, marks_);
    return std::max<int64_t>(0, device_peak_bytes(schedule_, stages_, device_) - budget_);
  }

  void mark(const std::vector<int>& order, size_t count) {
    for (size_t i = 0; i < order.size(); ++i) marks_[order[i]] = i < count;
  }

  /// By seconds of recomputation for each byte of tape that waits; ties in node order.
  std::vector<int> cheapest_first() const {
    std::vector<int> order = nodes_;
    const auto price = [&](int node) {
      const NodeCost& cost = model_.nodes[node];
      const auto bytes = static_cast<double>(cost.tape_bytes + cost.output_bytes);
      return bytes > 0 ? cost.recompute / bytes : 1e300;
    };
    std::ranges::stable_sort(order, {}, price);
    return order;
  }

  /// The fewest nodes from the front that fit; all of them, or as many as come nearest, when none do.
  Attempt shortest_prefix(const std::vector<int>& order) {
    size_t low = 0, high = order.size();  // `low` does not fit
    mark(order, high);
    if (const int64_t all = missing(); all > 0) return nearest_prefix(order, all);
    while (low + 1 < high) {
      const size_t middle = (low + high) / 2;
      mark(order, middle);
      (missing() > 0 ? low : high) = middle;
    }
    mark(order, high);
    return {marks_, 0, seconds()};
  }

  Attempt nearest_prefix(const std::vector<int>& order, int64_t all) {
    Attempt best{marks_, all, seconds()};
    const size_t step = std::max<size_t>(1, order.size() / 16);
    for (size_t count = step; count < order.size(); count += step) {
      mark(order, count);
      if (const Attempt attempt{marks_, missing(), seconds()}; attempt.is_better_than(best)) best = attempt;
    }
    return best;
  }

  double seconds() const {
    double sum = 0;
    for (int node : nodes_)
      if (marks_[node]) sum += model_.nodes[node].recompute;
    return sum;
  }

  void drop_what_is_not_needed(std::vector<int> order) {
    std::erase_if(order, [&](int node) { return !marks_[node]; });
    std::ranges::stable_sort(order, std::greater<>(), [&](int node) { return model_.nodes[node].recompute; });
    order.resize(std::min<size_t>(order.size(), kMostDevicePasses));
    for (int node : order) {
      marks_[node] = false;
      if (missing() > 0) marks_[node] = true;
    }
  }

  const Topology& topology_;
  const ModelCost& model_;
  const Schedule& schedule_;
  const Partition& partition_;
  const int device_;
  std::vector<bool>& marks_;
  std::vector<StageCost> stages_;  // by stage; those of this device are kept up to date
  std::vector<StageRange> mine_;
  std::vector<int> nodes_;
  int64_t budget_ = 0;
};

}  // namespace

int64_t choose_rematerialization(const Topology& topology, const ModelCost& model, const Schedule& schedule, const Partition& partition,
                                 int device, int64_t budget, std::vector<bool>& rematerialize) {
  return DeviceChoice(topology, model, schedule, partition, device, rematerialize).choose(budget);
}

std::vector<int> segment_sizes(const ModelCost& model, int first, int end, int segments) {
  std::vector<double> bytes;
  for (int node = first; node < end; ++node)
    bytes.push_back(static_cast<double>(model.nodes[node].tape_bytes + model.nodes[node].output_bytes));
  return partition_balanced(bytes, segments).sizes;
}

}  // namespace sluice::parallel
