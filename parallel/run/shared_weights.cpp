#include "parallel/run/shared_weights.h"

#include <algorithm>
#include <set>

#include "core/ops/copy.h"
#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

namespace {

class SharedWeights {
 public:
  SharedWeights(const layers::Graph& graph, const Executor& executor, Group* group)
      : graph_(graph), executor_(executor), layout_(executor.layout()), group_(group) {
    for (int stage = 0; stage < layout_.partition.stage_count(); ++stage)
      shards_.push_back(shards_of(graph, layout_.partition, stage, layout_.replication.replicas));
  }

  void share() {
    for (int parameter = 0; parameter < static_cast<int>(graph_.parameters().size()); ++parameter)
      for (int replica = 0; replica < layout_.replication.replicas; ++replica) share_from(parameter, replica);
  }

 private:
  int owner(int parameter, int replica) const { return layout_.stage_of(graph_.parameters()[parameter].nodes.front(), replica); }
  int rank_of(int stage) const { return executor_.ranks().of(layout_.device_of_stage[stage]); }

  bool is_sharded(int parameter) const { return parallel::is_sharded(layout_.replication, graph_.parameters()[parameter]); }

  ElementRange elements(int parameter, int replica) const {
    if (is_sharded(parameter)) return elements_in(shards_[owner(parameter, 0)][replica], parameter);
    return {0, graph_.parameters()[parameter].spec.shape.elements()};
  }

  /// The stages that read what the owner of a replica has; itself not among them.
  std::set<int> readers(int parameter, int replica) const {
    std::set<int> stages;
    for (int other = 0; other < layout_.replication.replicas; ++other)
      if (is_sharded(parameter) || other == replica)
        for (const int node : graph_.parameters()[parameter].nodes) stages.insert(layout_.stage_of(node, other));
    stages.erase(owner(parameter, replica));
    return stages;
  }

  const Stage::Parameter& parameter_of(const Stage& stage, int parameter) const {
    return *std::ranges::find(stage.parameters(), parameter, &Stage::Parameter::index);
  }

  const Stage* here(int stage) const {
    const auto found = std::ranges::find(executor_.stages(), stage, [](const auto& own) { return own->index(); });
    return found == executor_.stages().end() ? nullptr : found->get();
  }

  void share_from(int parameter, int replica) {
    const ElementRange range = elements(parameter, replica);
    const auto stages = readers(parameter, replica);
    if (range.count == 0 || stages.empty()) return;
    const Stage* from = here(owner(parameter, replica));
    Tensor shown;
    if (from) shown = shown_of(*from, parameter_of(*from, parameter));
    if (group_) over_ranks(rank_of(owner(parameter, replica)), stages, {parameter, range}, shown);
    for (const int stage : stages)
      if (const Stage* to = here(stage)) copy(shown, elements_of(parameter_of(*to, parameter).working, range));
  }

  /// What is shown in place of the weights is of the owner's range alone.
  static Tensor shown_of(const Stage& stage, const Stage::Parameter& parameter) {
    const Tensor& shown = stage.shown(parameter);
    return shown.shares_storage(parameter.working) ? elements_of(shown, parameter.range) : shown.reshape({shown.elements()});
  }

  /// From the owner's rank to those that read it.
  void over_ranks(int owner, const std::set<int>& stages, const ShardPiece& piece, Tensor& shown) const {
    std::set<int> ranks;
    for (const int stage : stages) ranks.insert(rank_of(stage));
    ranks.erase(owner);
    if (owner == group_->rank()) tell_list(*group_, ranks, shown);
    if (!ranks.contains(group_->rank())) return;
    const auto reader = std::ranges::find_if(stages, [&](int stage) { return here(stage) != nullptr; });
    shown = empty({piece.elements.count}, parameter_of(*here(*reader), piece.parameter).working.dtype());
    hear_list(*group_, owner, shown);
  }

  const layers::Graph& graph_;
  const Executor& executor_;
  const Layout layout_;
  Group* const group_;
  std::vector<std::vector<Shard>> shards_;  // by stage of a replica, and replica
};

}  // namespace

void share_weights(const layers::Graph& graph, const Executor& executor, Group* group) { SharedWeights(graph, executor, group).share(); }

}  // namespace sluice::parallel
