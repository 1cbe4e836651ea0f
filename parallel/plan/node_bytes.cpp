#include "parallel/plan/node_bytes.h"

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "core/ops/padded_rows.h"
#include "core/where.h"
#include "layers/tables.h"
#include "parallel/plan/check.h"
#include "parallel/plan/model_topology.h"
#include "parallel/run/batch_shape.h"

namespace sluice::parallel {

namespace {

/// Runs nodes one at a time on a meta device of its own and reads its counters.
class ByteCounter {
 public:
  ByteCounter(const layers::Graph& graph, const Topology& topology, int64_t samples, Precision precision, DeviceKind backend)
      : graph_(graph),
        topology_(topology),
        precision_(precision),
        device_(std::make_shared<Device>(DeviceKind::meta, 0, Device::Options{.stands_for = backend})),
        own_bytes_(device_->live_bytes()) {
    const Batch batch = meta_batch(graph, samples);
    for (const auto& input : graph.inputs()) {
      const Tensor loaded = batch.load(input.name, 0, samples);
      values_.push_back({loaded.shape(), loaded.dtype()});
    }
  }

  /// What the device holds when nothing runs: its libraries' workspace.
  int64_t own_bytes() const { return own_bytes_; }

  int64_t value_bytes(int value) const { return Device::charged_size(wire_bytes(value)); }

  NodeCost count(int node) {
    const WhereScope place({graph_.nodes()[node].name.c_str()});
    return located([&] {
      NodeCost cost;
      cost.bare_forward_bytes = bare_forward(node);
      count_whole(node, cost);
      count_split(node, cost);
      return cost;
    });
  }

 private:
  struct ValueForm {
    Shape shape;
    DType dtype;
    bool has_padded_rows = false;  ///< as it is handed on; its gradient has the same
  };
  int64_t wire_bytes(int value) const { return values_[value].shape.elements() * static_cast<int64_t>(size_of(values_[value].dtype)); }

  /// A value within a stage, or its gradient.
  Tensor make(int value) const {
    const auto& [shape, dtype, has_padded_rows] = values_[value];
    return has_padded_rows ? empty_rows(shape, dtype, device_) : empty(shape, dtype, device_);
  }

  struct Recorded {
    Var y;
    std::vector<Tensor> inputs;  ///< by position; equal values share one
    std::vector<NodePtr> input_leaves, parameter_leaves;
    int64_t before = 0;  ///< live bytes when the inputs and parameters were there
  };

  Recorded run(int node, bool recorded) {
    Recorded result;
    layers::Call call;
    std::map<int, Tensor> values;
    for (int value : topology_.nodes[node].inputs) {
      if (!values.contains(value)) values[value] = make(value);
      result.inputs.push_back(values[value]);
      const bool leaf = recorded && topology_.contributes(node, value);
      call.inputs.push_back(leaf ? Var::input(values[value]) : Var(values[value]));
      result.input_leaves.push_back(call.inputs.back().node());
    }
    for (int parameter : graph_.nodes()[node].parameters) {
      const Tensor value = empty(graph_.parameters()[parameter].spec.shape, working_dtype(precision_), device_).uncharged();
      call.parameters.push_back(recorded ? graph_.parameters()[parameter].leaf(value) : Var(value));
      result.parameter_leaves.push_back(call.parameters.back().node());
    }
    for (const auto& table : graph_.nodes()[node].module->tables())
      call.tables.push_back(empty({table.length, table.width}, dtype_of(table, working_dtype(precision_)), device_).uncharged());
    std::vector<std::vector<BatchMoments>> observed(graph_.nodes()[node].statistics.size());
    call.observed = observed;
    result.before = device_->live_bytes();
    device_->reset_peak();
    result.y = graph_.nodes()[node].module->forward(call);
    return result;
  }

  int64_t bare_forward(int node) {
    const Recorded recorded = run(node, false);
    const int64_t peak = device_->peak_bytes();
    const Tensor y = handed_on(recorded.y.value());
    values_.push_back({y.shape(), y.dtype(), !y.is_contiguous()});
    return peak - recorded.before;
  }

  /// Drops one thing after another and reads off what stays because the tape holds it.
  void count_whole(int node, NodeCost& cost) {
    Recorded recorded = run(node, topology_.has_gradient(node));
    cost.output_bytes = value_bytes(topology_.value_of(node));
    cost.wire_bytes = wire_bytes(topology_.value_of(node));
    cost.forward_peak_bytes = device_->peak_bytes() - recorded.before;
    const NodePtr root = recorded.y.node();
    const int64_t with_output = device_->live_bytes();
    recorded.y = Var();
    cost.keeps_output = device_->live_bytes() == with_output;
    cost.tape_bytes = std::max<int64_t>(0, device_->live_bytes() - recorded.before - (cost.keeps_output ? cost.output_bytes : 0));
    const auto& inputs = topology_.nodes[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t live = device_->live_bytes();
      for (size_t j = 0; j < inputs.size(); ++j)
        if (inputs[j] == inputs[i]) recorded.inputs[j] = Tensor();
      const auto first = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), inputs[i]) - inputs.begin());
      cost.keeps_input.push_back(first < i ? cost.keeps_input[first] : device_->live_bytes() == live);
    }
    if (!root) return;
    Backward backward(root, make(topology_.value_of(node)));
    const int64_t live = device_->live_bytes();
    device_->reset_peak();
    backward.run();
    cost.backward_peak_bytes = device_->peak_bytes() - live;
  }

  void count_split(int node, NodeCost& cost) {
    Recorded recorded = run(node, topology_.has_gradient(node));
    const NodePtr root = recorded.y.node();
    if (!root) return;
    recorded.y = Var();
    recorded.inputs.clear();
    Backward backward(root, make(topology_.value_of(node)));
    backward.run_inputs();
    for (const auto& leaf : recorded.input_leaves)
      if (leaf) backward.take(leaf);
    const int64_t live = device_->live_bytes();
    cost.deferred_bytes = live - own_bytes_;  // nothing else is left on this device
    device_->reset_peak();
    backward.run_weights();
    cost.weight_gradient_bytes = device_->peak_bytes() - live;
  }

  const layers::Graph& graph_;
  const Topology& topology_;
  Precision precision_;
  DevicePtr device_;
  const int64_t own_bytes_;
  std::vector<ValueForm> values_;  ///< as far as nodes were counted
};

/// The tables of all nodes: those that are alike are one on a stage.
std::vector<SharedCost> table_costs(const layers::Graph& graph, Precision precision) {
  std::map<layers::TableSpec, SharedCost> tables;
  for (int node = 0; node < static_cast<int>(graph.nodes().size()); ++node)
    for (const auto& table : graph.nodes()[node].module->tables()) {
      const auto element = static_cast<int64_t>(size_of(dtype_of(table, working_dtype(precision))));
      tables[table].bytes = Device::charged_size(table.length * table.width * element);
      tables[table].nodes.push_back(node);
    }
  std::vector<SharedCost> costs;
  for (const auto& [spec, cost] : tables) costs.push_back(cost);
  return costs;
}

}  // namespace

ModelCost model_bytes(const layers::Graph& graph, int64_t samples, Precision precision, DeviceKind backend, const Optimizer& optimizer,
                      SearchWatch* watch) {
  const Topology topology = topology_of(graph);
  ByteCounter counter(graph, topology, samples, precision, backend);
  ModelCost model;
  model.own_bytes = counter.own_bytes();
  const auto number = static_cast<double>(size_of(DType::f64));
  model.norm = {number * static_cast<double>(graph.parameters().size()), number};
  for (size_t input = 0; input < graph.inputs().size(); ++input) model.input_bytes.push_back(counter.value_bytes(static_cast<int>(input)));
  const auto floats = [](const Shape& shape) { return Device::charged_size(shape.elements() * static_cast<int64_t>(size_of(DType::f32))); };
  const auto single = [&](int parameter) { return floats(graph.parameters()[parameter].spec.shape); };
  const auto states = [&](int parameter) {
    int64_t bytes = optimizer.ema > 0 ? single(parameter) : 0;
    for (const OptimizerState& state : optimizer.states_of(graph.parameters()[parameter].spec.shape)) bytes += floats(state.shape);
    return bytes;
  };
  const auto copy = [&](int parameter) {
    if (working_dtype(precision) == DType::f32) return int64_t{0};
    return Device::charged_size(graph.parameters()[parameter].spec.shape.elements() *
                                static_cast<int64_t>(size_of(working_dtype(precision))));
  };
  for (int node = 0; node < topology.node_count(); ++node) {
    if (watch) watch->check();
    model.nodes.push_back(counter.count(node));
    NodeCost& cost = model.nodes.back();
    for (int parameter : graph.nodes()[node].parameters) {
      const bool owned = graph.parameters()[parameter].nodes.front() == node;
      if (graph.parameters()[parameter].frozen) {
        if (owned && copy(parameter) > 0) cost.state_bytes += single(parameter);  // the master beside what forward reads
        continue;
      }
      cost.gradient_bytes += single(parameter);
      cost.state_bytes += single(parameter) + (owned ? single(parameter) + states(parameter) + copy(parameter) : 0);
      if (owned) cost.sharded_bytes += states(parameter) + (copy(parameter) > 0 ? single(parameter) : 0);
    }
    for (int statistics : graph.nodes()[node].statistics)
      cost.state_bytes += (optimizer.ema > 0 ? 4 : 2) *
                          Device::charged_size(graph.statistics()[statistics].spec.channels * static_cast<int64_t>(size_of(DType::f32)));
  }
  model.shared = table_costs(graph, precision);
  for (int parameter = 0; parameter < static_cast<int>(graph.parameters().size()); ++parameter) {
    const auto& [name, spec, nodes, frozen, tied_names] = graph.parameters()[parameter];
    const int64_t read = working_dtype(precision) == DType::f32 ? single(parameter) : copy(parameter);
    if (frozen && nodes.size() == 1) model.nodes[nodes[0]].state_bytes += read;
    if (frozen && nodes.size() > 1) model.shared.push_back({read, nodes});
    if (frozen || nodes.size() == 1) continue;
    model.tied_bytes.push_back(read);
    const auto elements = static_cast<double>(spec.shape.elements());
    model.tied_wire.push_back({elements * sizeof(float), elements * static_cast<double>(size_of(working_dtype(precision)))});
  }
  return model;
}

void set_times(ModelCost& model, const std::vector<NodeTimes>& times) {
  require(times.size() == model.nodes.size(), "plan: needs the times of ", model.nodes.size(), " nodes, got ", times.size(),
          "; measure them for this model");
  double crowding = 0, bytes = 0;
  for (size_t node = 0; node < times.size(); ++node) {
    const NodeTimes& time = times[node];
    for (const auto part : kNodeTimes)
      require(is_node_time(time.*part), "plan: needs times >= 0 and below 9e18, got ", time.*part, " for node number ", node,
              "; measure again");
    NodeCost& cost = model.nodes[node];
    cost.forward = time.forward;
    cost.backward = time.backward;
    cost.input_gradient = time.input_gradient;
    cost.weight_gradient = time.weight_gradient;
    cost.recompute = time.recompute;
    cost.step = time.step;
    cost.copy = time.copy;
    crowding += time.crowding;
    bytes += time.crowding_bytes;
  }
  const auto nodes = static_cast<double>(std::max<size_t>(1, times.size()));
  model.crowding = {crowding / nodes, static_cast<int64_t>(bytes / nodes)};
}

}  // namespace sluice::parallel
