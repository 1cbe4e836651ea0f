#include "parallel/run/statistics.h"

#include <algorithm>
#include <iterator>

#include "core/ops/concat.h"
#include "core/where.h"

namespace sluice::parallel {

StageStatistics::StageStatistics(const layers::Graph& graph, int first_node, int end_node, const DevicePtr& device, bool with_averages)
    : graph_(graph) {
  const auto start = [&](const Shape& shape) {
    return layers::RunningStatistics{zeros(shape, DType::f32, device), full(shape, 1, DType::f32, device)};
  };
  for (int node = first_node; node < end_node; ++node) {
    WhereScope scope({graph.nodes()[node].name.c_str(), -1, -1});
    first_of_node_[node] = entries_.size();
    for (int index : graph.nodes()[node].statistics) {
      const Shape shape{graph.statistics()[index].spec.channels};
      entries_.push_back({index, start(shape), with_averages ? start(shape) : layers::RunningStatistics{}, {}});
    }
  }
}

std::vector<layers::RunningStatistics> StageStatistics::running_of(int node, bool averaged) const {
  std::vector<layers::RunningStatistics> running;
  const size_t first = first_of_node_.at(node);
  for (size_t i = 0; i < graph_.nodes()[node].statistics.size(); ++i) {
    const Entry& entry = entries_[first + i];
    running.push_back(averaged ? entry.average : entry.running);
  }
  return running;
}

void StageStatistics::observe(int node, int micro_batch, std::vector<std::vector<BatchMoments>> observed) {
  const size_t first = first_of_node_.at(node);
  for (size_t i = 0; i < observed.size(); ++i) {
    require(std::ranges::all_of(observed[i], [](const BatchMoments& moments) { return moments.count > 0; }) && !observed[i].empty(),
            "statistics: the module of '", graph_.statistics()[entries_[first + i].index].name,
            "' needs to add what it saw to Call::observed when it trains");
    entries_[first + i].observed[micro_batch] = std::move(observed[i]);
  }
}

void StageStatistics::commit(const Tensor& sum_of_squares, double ema_decay) {
  std::vector<RunningUpdate> updates;
  std::vector<MovingAverage> averages;
  for (auto& entry : entries_) {
    RunningUpdate& update =
        updates.emplace_back(RunningUpdate{entry.running.mean, entry.running.variance, {}, graph_.statistics()[entry.index].spec.momentum});
    for (auto& [micro_batch, runs] : entry.observed) std::ranges::move(runs, std::back_inserter(update.parts));
    entry.observed.clear();
    if (!entry.average.mean.defined()) continue;
    averages.push_back({entry.average.mean, entry.running.mean});
    averages.push_back({entry.average.variance, entry.running.variance});
  }
  update_running_statistics(updates, sum_of_squares);
  moving_average_step(averages, ema_decay, sum_of_squares);
}

Tensor StageStatistics::observed() const {
  std::vector<Tensor> lists;
  for (const auto& entry : entries_)
    for (const auto& [micro_batch, runs] : entry.observed)
      for (const BatchMoments& moments : runs) lists.insert(lists.end(), {moments.mean, moments.variance});
  return lists.empty() ? Tensor() : concat(lists, 0);
}

std::optional<layers::ValueType> StageStatistics::expected(const MicroBatchRange& micro_batches) const {
  int64_t elements = 0;
  for (const auto& entry : entries_) {
    if (entry.observed.empty()) return std::nullopt;
    for (const BatchMoments& moments : entry.observed.begin()->second) elements += 2 * moments.mean.elements();
  }
  return layers::ValueType{{elements * micro_batches.count()}, entries_[0].running.mean.dtype()};
}

void StageStatistics::add(const Tensor& observed, const MicroBatchRange& micro_batches, const std::vector<int64_t>& first_sample) {
  const auto samples = [&](int micro_batch) { return first_sample[micro_batch + 1] - first_sample[micro_batch]; };
  int64_t at = 0;
  const auto next = [&](int64_t elements) {
    at += elements;
    return observed.slice(0, at - elements, at);
  };
  for (auto& entry : entries_) {
    const auto own = *entry.observed.begin();
    for (const auto& [other, runs] : entry.observed)
      for (size_t run = 0; run < runs.size(); ++run)
        require(runs.size() == own.second.size() && runs[run].count % samples(other) == 0 &&
                    runs[run].count * samples(own.first) == own.second[run].count * samples(other),
                "statistics: replicas need as many numbers of every sample for '", graph_.statistics()[entry.index].name, "', got ",
                own.second[run].count, " of ", samples(own.first), " samples and ", runs[run].count, " of ", samples(other),
                "; train with one replica");
    for (int micro_batch = micro_batches.first; micro_batch < micro_batches.end; ++micro_batch)
      for (const BatchMoments& like : own.second) {
        const int64_t channels = like.mean.elements();
        const Tensor mean = next(channels), variance = next(channels);
        entry.observed[micro_batch].push_back({mean, variance, like.count / samples(own.first) * samples(micro_batch)});
      }
  }
}

void StageStatistics::forget() {
  for (auto& entry : entries_) entry.observed.clear();
}

}  // namespace sluice::parallel
