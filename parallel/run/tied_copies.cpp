#include "parallel/run/tied_copies.h"

#include <map>
#include <set>

#include "core/ops/copy.h"
#include "parallel/group/collectives.h"
#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

namespace {

/// By name of parameter.
using Shown = std::map<std::string, Tensor>;

/// From the owner's rank to the others that use the parameter.
void send_tied(const Topology::Tied& tied, const Executor& executor, Group& group, Shown& shown) {
  const DeviceRanks& ranks = executor.ranks();
  const Layout layout = executor.layout();
  const auto rank_of = [&](int node) { return ranks.of(layout.device_of_stage[layout.partition.stage_of(node)]); };
  const int owner = rank_of(tied.nodes.front());
  std::set<int> users;
  for (const int node : tied.nodes) users.insert(rank_of(node));
  users.erase(owner);
  if (users.contains(ranks.rank())) {
    const std::string bytes = group.hear(owner, kNoEnd);
    PacketReader packet(bytes);
    shown[tied.parameter] = read_tensor(packet);
  }
  if (owner != ranks.rank() || users.empty()) return;
  PacketWriter packet;
  write(packet, shown.at(tied.parameter));
  const std::string bytes = packet.take();
  for (const int user : users) group.tell(user, bytes);
}

}  // namespace

void copy_tied(const layers::Graph& graph, const Topology& topology, const Executor& executor, Group* group) {
  Shown shown;
  for (const auto& stage : executor.stages())
    for (const auto& parameter : stage->parameters())
      if (parameter.owned) shown[graph.parameters()[parameter.index].name] = stage->shown(parameter);
  if (group)
    for (const auto& tied : topology.tied) send_tied(tied, executor, *group, shown);
  for (const auto& stage : executor.stages())
    for (const auto& parameter : stage->parameters())
      if (!parameter.owned) copy(shown.at(graph.parameters()[parameter.index].name), parameter.working);
}

}  // namespace sluice::parallel
