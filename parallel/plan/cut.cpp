#include "parallel/plan/cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace sluice::parallel {

namespace {

constexpr int kHalvings = 40;

struct Cut {
  Partition partition;
  double slowest = 0;
};

double slowest_of(const Partition& partition, const StageSeconds& seconds) {
  double slowest = 0;
  for (int stage = 0, first = 0; stage < partition.stage_count(); first += partition.sizes[stage++])
    slowest = std::max(slowest, *seconds(stage, first, first + partition.sizes[stage]));
  return slowest;
}

/// The most nodes from `first` on that `stage` can take under the limit; 0 for none. Doubles the size, then halves the distance.
int most_nodes(const StageSeconds& seconds, int stage, int first, int most, double limit) {
  const auto fits = [&](int size) {
    const auto taken = seconds(stage, first, first + size);
    return taken && *taken <= limit;
  };
  if (most < 1 || !fits(1)) return 0;
  int low = 1, high = 2;
  while (high <= most && fits(high)) low = std::exchange(high, high * 2);
  high = std::min(high, most + 1);
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Every stage takes as many nodes as it can, the last one what is left. Finds a cut unless a later stage then begins at a node that it
/// cannot take but a still later one could.
std::optional<Partition> greedy_cut(int nodes, int stages, const StageSeconds& seconds, double limit) {
  Partition partition;
  for (int stage = 0, first = 0; stage < stages; ++stage) {
    const int most = nodes - first - (stages - stage - 1);
    const int size = most_nodes(seconds, stage, first, most, limit);
    if (size == 0 || (stage + 1 == stages && size < most)) return std::nullopt;
    partition.sizes.push_back(size);
    first += size;
  }
  return partition;
}

/// Where each stage may begin in any cut under the limit: not before `earliest`, or the stages from there on could not take the rest, and
/// not after `latest`, or those before could not take what comes before.
struct Window {
  int earliest, latest;
};

std::vector<Window> windows_under(int nodes, int stages, const StageSeconds& seconds, double limit) {
  std::vector<Window> windows(stages + 1, {nodes, nodes});
  for (int stage = stages - 1; stage >= 0; --stage) {
    const int end = windows[stage + 1].earliest;
    int low = stage - 1, high = end;  // a start at `high` is possible as far as the later stages go
    while (low + 1 < high) {
      const int first = (low + high) / 2;
      const auto taken = seconds(stage, first, end);
      (taken && *taken <= limit ? high : low) = first;
    }
    windows[stage].earliest = high;
  }
  for (int stage = 0, first = 0; stage < stages; ++stage) {
    windows[stage].latest = first;
    first = std::min(nodes, first + std::max(1, most_nodes(seconds, stage, first, nodes - first, limit)));
  }
  return windows;
}

/// All starts of each stage from which the rest can be taken; for each the nearest start of the next stage is the best end.
std::optional<Partition> searched_cut(int nodes, int stages, const StageSeconds& seconds, double limit) {
  const auto windows = windows_under(nodes, stages, seconds, limit);
  if (windows[0].earliest > 0) return std::nullopt;
  std::vector<std::vector<int>> starts(stages + 1);  // ascending
  starts[stages] = {nodes};
  for (int stage = stages - 1; stage >= 0; --stage)
    for (int first = std::max(stage, windows[stage].earliest); first <= windows[stage].latest; ++first) {
      const auto end = std::ranges::upper_bound(starts[stage + 1], first);
      if (end == starts[stage + 1].end()) break;
      if (const auto taken = seconds(stage, first, *end); taken && *taken <= limit) starts[stage].push_back(first);
    }
  if (starts[0].empty() || starts[0].front() != 0) return std::nullopt;
  Partition partition;
  for (int stage = 0, first = 0; stage < stages; ++stage) {
    const int end = *std::ranges::upper_bound(starts[stage + 1], first);
    partition.sizes.push_back(end - first);
    first = end;
  }
  return partition;
}

std::optional<Cut> cut_under(int nodes, int stages, const StageSeconds& seconds, double limit) {
  auto partition = greedy_cut(nodes, stages, seconds, limit);
  if (!partition) partition = searched_cut(nodes, stages, seconds, limit);
  if (!partition) return std::nullopt;
  const double slowest = slowest_of(*partition, seconds);
  return Cut{std::move(*partition), slowest};
}

}  // namespace

std::optional<Partition> fastest_cut(int nodes, int stages, const StageSeconds& seconds) {
  auto best = cut_under(nodes, stages, seconds, kInfinity);
  if (!best) return std::nullopt;
  double low = 0;  // nothing was found there
  for (int halving = 0; halving < kHalvings && low < best->slowest; ++halving) {
    const double middle = (low + best->slowest) / 2;
    if (auto better = cut_under(nodes, stages, seconds, middle))
      best = std::move(better);
    else
      low = middle;
  }
  while (best->slowest > 0) {
    auto better = cut_under(nodes, stages, seconds, std::nextafter(best->slowest, 0.0));
    if (!better) break;
    best = std::move(better);
  }
  return best->partition;
}

namespace {

/// By dynamic programming from the last stage: the least value of a cut, made from its stages' seconds by `with`, among those whose
/// stages all keep to `limit`.
class CutTable {
 public:
  template <class With>
  CutTable(int nodes, int stages, const StageSeconds& seconds, const LeastSeconds& least, double limit, With with)
      : best_(stages + 1, std::vector(nodes + 1, kInfinity)), size_(stages + 1, std::vector(nodes + 1, 0)) {
    best_[0][nodes] = 0;
    for (int left = 1; left <= stages; ++left)
      for (int first = stages - left; first <= nodes - left; ++first)
        for (int end = first + 1; end <= nodes - left + 1 && least(stages - left, first, end) <= limit; ++end) {
          const auto taken = best_[left - 1][end] < kInfinity ? seconds(stages - left, first, end) : std::nullopt;
          if (!taken || *taken > limit) continue;
          const double value = with(*taken, best_[left - 1][end]);
          if (value >= best_[left][first]) continue;
          best_[left][first] = value;
          size_[left][first] = end - first;
        }
  }

  double least() const { return best_.back()[0]; }

  std::optional<Partition> cut() const {
    if (least() == kInfinity) return std::nullopt;
    Partition partition;
    for (int left = static_cast<int>(best_.size()) - 1, first = 0; left > 0; first += partition.sizes.back(), --left)
      partition.sizes.push_back(size_[left][first]);
    return partition;
  }

 private:
  std::vector<std::vector<double>> best_;  // [stages from the end][first node]
  std::vector<std::vector<int>> size_;     // of the first of those stages
};

}  // namespace

std::optional<Partition> best_cut(int nodes, int stages, const StageSeconds& seconds, const LeastSeconds& least) {
  const auto quick = fastest_cut(nodes, stages, seconds);
  const double limit = quick ? slowest_of(*quick, seconds) : std::numeric_limits<double>::max();
  const CutTable slowest(nodes, stages, seconds, least, limit, [](double taken, double rest) { return std::max(taken, rest); });
  const auto squared = [](double taken, double rest) { return taken * taken + rest; };
  return CutTable(nodes, stages, seconds, least, slowest.least(), squared).cut();
}

void for_each_cut(int nodes, int stages, const std::function<void(const Partition&)>& visit) {
  std::vector<int> sizes;
  const auto extend = [&](auto&& self, int left) -> void {
    const int rest = stages - static_cast<int>(sizes.size());
    if (rest == 1) {
      sizes.push_back(left);
      visit(Partition{sizes});
      sizes.pop_back();
      return;
    }
    for (int size = 1; size <= left - rest + 1; ++size) {
      sizes.push_back(size);
      self(self, left - size);
      sizes.pop_back();
    }
  };
  extend(extend, nodes);
}

int64_t cut_count(int nodes, int stages, int64_t cap) {
  double count = 1;
  for (int i = 1; i < stages; ++i) count = count * (nodes - i) / i;
  return count > static_cast<double>(cap) ? cap + 1 : static_cast<int64_t>(std::llround(count));
}

}  // namespace sluice::parallel
