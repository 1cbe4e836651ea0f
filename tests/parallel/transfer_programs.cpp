#include "tests/parallel/transfer_programs.h"

#include "tests/parallel/random_graph.h"

namespace sluice::testing {

using namespace parallel;

namespace {

Topology topology_with(int nodes, const std::function<std::vector<int>(int node)>& inputs_of) {
  Topology topology{.inputs = {"x"}, .nodes = {}, .differentiable = {false}, .tied = {}};
  for (int node = 0; node < nodes; ++node) {
    topology.nodes.push_back({join("n", node), inputs_of(node)});
    topology.differentiable.push_back(true);
  }
  return topology;
}

Schedule random_schedule(Draw& draw, int stages, int micro_batches) {
  int devices = draw.from(1, stages);
  while (stages % devices != 0) --devices;
  switch (draw.from(0, 4)) {
    case 0:
      return make_schedule(NamedSchedule::gpipe, stages, micro_batches);
    case 1:
      return make_schedule(NamedSchedule::one_f_one_b, stages, micro_batches);
    case 2:
      return make_schedule(NamedSchedule::zb_h1, stages, micro_batches);
    case 3:
      return make_schedule(NamedSchedule::interleaved, devices, micro_batches, stages / devices);
    default:
      std::vector<int> placement(stages);
      for (int stage = 0; stage < stages; ++stage) placement[stage] = stage < devices ? stage : draw.from(0, devices - 1);
      return forward_schedule(placement, micro_batches);
  }
}

}  // namespace

Program skip_program(NamedSchedule schedule, int micro_batches) {
  const std::vector<std::vector<int>> inputs = {{0}, {1}, {1, 2}, {1, 3}, {4}};
  Topology topology = topology_with(5, [&](int node) { return inputs[node]; });
  topology.tied = {{"embedding", {0, 3}}};
  return lower(topology, {{1, 1, 1, 2}}, make_schedule(schedule, 4, micro_batches), std::vector<bool>(5));
}

Program pair_program(int micro_batches) {
  return lower(topology_with(2, [](int node) { return std::vector{node}; }), {{1, 1}},
               make_schedule(NamedSchedule::one_f_one_b, 2, micro_batches), std::vector<bool>(2));
}

Program random_program(uint64_t seed) {
  Draw draw(seed);
  const int nodes = draw.from(2, 8);
  const Topology topology = topology_with(nodes, [&](int node) {
    std::vector<int> inputs(draw.from(1, 3));
    for (int& value : inputs) value = draw.from(0, node);
    return inputs;
  });
  Partition partition{{1}};
  for (int node = 1; node < nodes; ++node) draw.one_in(4) ? void(++partition.sizes.back()) : partition.sizes.push_back(1);
  std::vector<bool> rematerialize(nodes);
  for (int node = 0; node < nodes; ++node) rematerialize[node] = draw.one_in(2);
  const TransferWindow window{draw.from(0, 3), draw.from(0, 3)};
  return lower(topology, partition, random_schedule(draw, partition.stage_count(), draw.from(1, 9)), rematerialize, window);
}

}  // namespace sluice::testing
