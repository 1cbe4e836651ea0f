#include "parallel/run/shards.h"

#include <algorithm>

namespace sluice::parallel {

namespace {

/// Ascending: each belongs to the stage of the first node that uses it.
std::vector<int> owned_parameters(const layers::Graph& graph, const Partition& partition, int stage) {
  std::vector<int> owned;
  const int first = partition.first_node(stage), end = partition.end_node(stage);
  for (int index = 0; index < static_cast<int>(graph.parameters().size()); ++index)
    if (const int node = graph.parameters()[index].nodes.front(); first <= node && node < end) owned.push_back(index);
  return owned;
}

}  // namespace

std::vector<Shard> shards_of(const layers::Graph& graph, const Partition& partition, int stage, int replicas) {
  const auto owned = owned_parameters(graph, partition, stage);
  int64_t all = 0;
  for (const int index : owned) all += graph.parameters()[index].spec.shape.elements();
  std::vector<Shard> shards(static_cast<size_t>(replicas));
  int64_t before = 0;
  for (const int index : owned) {
    const int64_t elements = graph.parameters()[index].spec.shape.elements();
    for (int64_t first = 0; first < elements; first += kShardGrain) {
      Shard& shard = shards[static_cast<size_t>((before + first) * replicas / all)];
      const int64_t count = std::min(kShardGrain, elements - first);
      if (!shard.empty() && shard.back().parameter == index)
        shard.back().elements.count += count;
      else
        shard.push_back({index, {first, count}});
    }
    before += elements;
  }
  return shards;
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
