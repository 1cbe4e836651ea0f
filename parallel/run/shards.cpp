#include "parallel/run/shards.h"

#include <algorithm>
#include <map>

namespace sluice::parallel {

namespace {

/// Those that are trained, ascending: each belongs to the stage of the first node that uses it.
std::vector<int> owned_parameters(const layers::Graph& graph, const Partition& partition, int stage) {
  std::vector<int> owned;
  const int first = partition.first_node(stage), end = partition.end_node(stage);
  for (int index = 0; index < static_cast<int>(graph.parameters().size()); ++index)
    if (const int node = graph.parameters()[index].nodes.front(); first <= node && node < end && !graph.parameters()[index].frozen)
      owned.push_back(index);
  return owned;
}

}  // namespace

namespace {

/// Deals out parameters, one list of them after the other, each list to all shards alike.
class ShardFilling {
 public:
  ShardFilling(const layers::Graph& graph, int replicas)
      : graph_(graph), replicas_(replicas), shards_(static_cast<size_t>(replicas)), filled_(shards_.size(), 0) {}

  void add(const std::vector<int>& parameters) {
    for (const int index : parameters) sum_ += elements(index);
    std::vector<int64_t> added(shards_.size(), 0);
    size_t shard = 0;
    int64_t position = 0;
    for (const int index : parameters)
      for (int64_t first = 0; first < elements(index); first += kShardGrain) {
        while ((position + filled_[shard]) * replicas_ >= static_cast<int64_t>(shard + 1) * sum_) ++shard;
        const int64_t count = std::min(kShardGrain, elements(index) - first);
        put(shards_[shard], index, {first, count});
        added[shard] += count;
        position += count;
      }
    int64_t before = 0;
    for (size_t i = 0; i < filled_.size(); ++i) {
      before += added[i];
      filled_[i] += before;
    }
  }

  std::vector<Shard> take() {
    for (Shard& shard : shards_) std::ranges::sort(shard, {}, &ShardPiece::parameter);
    return std::move(shards_);
  }

 private:
  int64_t elements(int parameter) const { return graph_.parameters()[parameter].spec.shape.elements(); }

  static void put(Shard& shard, int parameter, const ElementRange& elements) {
    if (!shard.empty() && shard.back().parameter == parameter)
      shard.back().elements.count += elements.count;
    else
      shard.push_back({parameter, elements});
  }

  const layers::Graph& graph_;
  const int64_t replicas_;
  std::vector<Shard> shards_;
  std::vector<int64_t> filled_;  ///< elements in a shard and all before it
  int64_t sum_ = 0;              ///< of all lists so far
};

}  // namespace

std::vector<Shard> shards_of(const layers::Graph& graph, const Partition& partition, int stage, int replicas) {
  std::map<size_t, std::vector<int>> by_uses;  // a gradient goes between replicas once for each
  for (const int index : owned_parameters(graph, partition, stage)) by_uses[graph.parameters()[index].nodes.size()].push_back(index);
  ShardFilling filling(graph, replicas);
  for (const auto& [uses, parameters] : by_uses) filling.add(parameters);
  return filling.take();
}

ElementRange elements_in(const Shard& shard, int parameter) {
  const auto found = std::ranges::lower_bound(shard, parameter, {}, &ShardPiece::parameter);
  return found == shard.end() || found->parameter != parameter ? ElementRange{} : found->elements;
}

Tensor elements_of(const Tensor& x, const ElementRange& range) { return x.reshape({x.elements()}).slice(0, range.first, range.end()); }

NormLayout::NormLayout(const layers::Graph& graph, const Layout& layout, DeviceKind kind)
    : kind_(kind), parameters_(static_cast<int64_t>(graph.parameters().size())), size_(parameters_) {
  if (layout.replication.replicas == 1) return;
  for (int stage = 0; stage < layout.partition.stage_count(); ++stage)
    for (const Shard& shard : shards_of(graph, layout.partition, stage, layout.replication.replicas))
      for (const auto& [parameter, elements] : shard)
        if (const int64_t whole = graph.parameters()[parameter].spec.shape.elements(); elements.end() == whole && elements.first > 0)
          splits_.push_back({parameter, 0, squares_chunks(kind, whole)});
  std::ranges::sort(splits_, {}, &Split::parameter);
  for (Split& split : splits_) {
    split.first = size_;
    size_ += split.chunks;
  }
}

const NormLayout::Split* NormLayout::split(int parameter) const {
  const auto found = std::ranges::lower_bound(splits_, parameter, {}, &Split::parameter);
  return found == splits_.end() || found->parameter != parameter ? nullptr : &*found;
}

std::pair<int64_t, int64_t> NormLayout::chunks_of(const Split& split, const ElementRange& elements) const {
  return {split.first + elements.first / squares_chunk(kind_), squares_chunks(kind_, elements.count)};
}

}  // namespace sluice::parallel
