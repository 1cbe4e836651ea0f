// What stays of a micro-batch between I and W, in a transformer's block and in AmoebaNet's cells.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "autograd/backward.h"
#include "models/amoebanet.h"
#include "parallel/plan.h"
#include "parallel/run/batch_shape.h"
#include "parallel/run/stage.h"
#include "tests/parallel/tiny_models.h"

namespace sluice::parallel {
namespace {

constexpr int64_t kSamples = 4;

layers::Graph block_graph() {
  auto options = sluice::testing::tiny_transformer_options();
  options.layers = 1;
  options.dim = 64;
  options.context = 32;
  return models::transformer_lm(options);
}

layers::Graph cells_graph() {
  models::AmoebaNetOptions options;
  options.layers = 3;
  options.filters = 32;
  options.classes = 4;
  options.image_size = 32;
  return models::amoebanet(options);
}

void collect_saved(const NodePtr& node, std::set<const Node*>& seen, std::vector<Tensor>& saved) {
  if (!node || !seen.insert(node.get()).second) return;
  const bool has_parameters = std::ranges::any_of(node->inputs, [](const NodePtr& input) { return input && input->is_parameter(); });
  if (has_parameters) saved.insert(saved.end(), node->saved.begin(), node->saved.end());
  for (const NodePtr& input : node->inputs) collect_saved(input, seen, saved);
}

struct Held {
  int64_t kept = 0;  ///< between I and W
  int64_t all = 0;   ///< the same if every node with parameters kept all that it had saved
};

/// One micro-batch through a graph that is recorded as one.
Held held_by_one_recording(const layers::Graph& graph) {
  const auto device = make_device("meta:0");
  const Batch batch = meta_batch(graph, kSamples);
  std::vector<Var> parameters, values;
  for (const auto& parameter : graph.parameters()) parameters.push_back(Var::parameter(empty(parameter.spec.shape, DType::f32, device)));
  const int64_t before = device->live_bytes();
  for (const auto& input : graph.inputs()) values.emplace_back(batch.load(input.name, 0, kSamples).to(device));
  for (const auto& node : graph.nodes()) {
    layers::Call call;
    for (int value : node.inputs) call.inputs.push_back(values[static_cast<size_t>(value)]);
    for (int parameter : node.parameters) call.parameters.push_back(parameters[static_cast<size_t>(parameter)]);
    values.push_back(node.module->forward(call));
  }
  const NodePtr loss = values.back().node();
  values.clear();
  std::vector<Tensor> saved;
  std::set<const Node*> seen;
  collect_saved(loss, seen, saved);
  Backward backward(loss, full({}, 1, DType::f32, device));
  backward.run_inputs();
  Held held;
  held.all = device->live_bytes() - before;
  saved.clear();
  held.kept = device->live_bytes() - before;
  return held;
}

/// The same on a stage.
int64_t held_by_a_stage(const layers::Graph& graph) {
  const auto device = make_device("meta:0");
  const Topology topology = topology_of(graph);
  const Partition whole{{topology.node_count()}};
  const std::vector<int> placement{0};
  const std::vector<bool> nothing_again(topology.node_count(), false);
  const Layout layout{topology, whole, placement, nothing_again, 1, true};
  const Dataflow flow = dataflow(layout);
  layers::Tables tables(device, DType::f32);
  Stage stage(graph, layout, flow, 0, device, tables, {});
  const Batch batch = meta_batch(graph, kSamples);
  RunContext run;
  run.batch = &batch;
  run.shape = shape_of(graph, batch);
  run.first_sample = micro_batch_bounds(kSamples, 1);
  const int64_t before = device->live_bytes();
  stage.forward(run, 0);
  stage.input_gradient(0);
  const int64_t loss = Device::charged_size(stage.losses().at(0).bytes());
  return device->live_bytes() - before - loss;
}

TEST(SplitBackward, KeepsLessThanAllOfATransformersBlock) {
  const Held held = held_by_one_recording(block_graph());
  RecordProperty("kept", std::to_string(held.kept));
  RecordProperty("all", std::to_string(held.all));
  EXPECT_LT(held.kept, held.all);
  EXPECT_EQ(held_by_a_stage(block_graph()), held.kept);
}

TEST(SplitBackward, KeepsLessThanAllOfAmoebaNetsCells) {
  const Held held = held_by_one_recording(cells_graph());
  RecordProperty("kept", std::to_string(held.kept));
  RecordProperty("all", std::to_string(held.all));
  EXPECT_LT(held.kept, held.all);
  EXPECT_LT(held_by_a_stage(cells_graph()), held.all) << "sums at the borders of nodes make it differ from one recording";
}

}  // namespace
}  // namespace sluice::parallel
