#include "parallel/plan/node_count.h"

#include <algorithm>
#include <locale>
#include <sstream>

#include "autograd/backward.h"
#include "autograd/recorded_ops.h"
#include "core/ops/elementwise.h"
#include "core/ops/moving_average.h"
#include "core/ops/sums_of_squares.h"
#include "core/where.h"
#include "layers/tables.h"
#include "layers/value_type.h"
#include "parallel/plan/model_topology.h"

namespace sluice::parallel {

namespace {

void add_type(std::ostream& out, const Tensor& x) {
  if (x.defined()) out << ' ' << name_of(x.dtype()) << x.shape();
}

/// Runs one node after another on a meta device.
class WorkCounter {
 public:
  WorkCounter(const layers::Graph& graph, int64_t samples, DevicePtr device, Precision precision, const Optimizer& optimizer)
      : graph_(graph),
        topology_(inference_topology_of(graph)),
        samples_(samples),
        device_(std::move(device)),
        precision_(precision),
        optimizer_(optimizer),
        tables_(device_, working_dtype(precision)),
        values_(topology_.value_count()) {
    for (size_t input = 0; input < graph.inputs().size(); ++input) values_[input] = input_tensor(graph.inputs()[input]);
  }

  NodeCount count(int node) {
    const WhereScope place({graph_.nodes()[node].name.c_str()});
    return located([&] { return count_located(node); });
  }

 private:
  NodeCount count_located(int node) {
    NodeCount result;
    std::ostringstream work;
    work.imbue(std::locale::classic());
    const layers::Call call = call_of(node);
    const Cost before = device_->counted();  // without a table that this node is the first to read: it is made once, not a step
    for (const auto& input : call.inputs) add_type(work, input.value());
    work << "; parameters";
    for (const auto& parameter : call.parameters) add_type(work, parameter.value());
    Var y;
    result.times.forward = result.times.recompute = timed([&] { y = graph_.nodes()[node].module->forward(call); });
    work << recorded_ops(y.node());
    values_[topology_.value_of(node)] = y.value();
    if (y.node() && topology_.differentiable[topology_.value_of(node)]) {  // else no gradient comes
      result.times.backward = timed([&] { Backward(y, empty_like(y.value())).run(); });
      count_split(node, result.times);
      count_accumulation(node, result);
    }
    count_step(node, result);
    const Cost cost = device_->counted() - before;
    work << "; " << cost.flops << ' ' << cost.bytes_read << ' ' << cost.bytes_written << " step " << result.owned_elements;
    result.work = std::move(work).str();
    return result;
  }

  Tensor input_tensor(const layers::Graph::Input& input) const {
    require(input.sample_shape.has_value(), "plan: needs the sample shape of input '", input.name,
            "'; give it with Graph::input(name, shape, dtype)");
    return empty(layers::ValueType::of_samples(*input.sample_shape, input.dtype, samples_).shape, input.dtype, device_);
  }

  layers::Call call_of(int node) {
    layers::Call call;
    call.tables = tables_.of(*graph_.nodes()[node].module);
    for (int value : topology_.nodes[node].inputs)
      call.inputs.push_back(topology_.contributes(node, value) ? Var::input(values_[value]) : Var(values_[value]));
    for (int parameter : graph_.nodes()[node].parameters) {
      const Tensor value = empty(graph_.parameters()[parameter].spec.shape, working_dtype(precision_), device_);
      call.parameters.push_back(topology_.has_gradient(node) ? graph_.parameters()[parameter].leaf(value) : Var(value));
    }
    return call;
  }

  template <class Work>
  double timed(const Work& work) const {
    device_->set_clock(0);
    work();
    return device_->clock_seconds();
  }

  void count_split(int node, NodeTimes& times) {
    const Var y = graph_.nodes()[node].module->forward(call_of(node));
    Backward backward(y, empty_like(y.value()));
    times.input_gradient = timed([&] { backward.run_inputs(); });
    times.weight_gradient = timed([&] { backward.run_weights(); });
  }

  void count_accumulation(int node, NodeCount& result) const {
    for (const int parameter : graph_.nodes()[node].parameters) {
      if (graph_.parameters()[parameter].frozen) continue;
      const auto gradient = [&] { return empty(graph_.parameters()[parameter].spec.shape, DType::f32, device_); };
      Tensor sum = gradient();
      result.accumulation += timed([&] { add_part(sum, gradient()); });
    }
  }

  void count_step(int node, NodeCount& result) const {
    std::vector<OptimizerSlot> slots;
    std::vector<MovingAverage> averages;
    std::vector<Tensor> gradients;
    std::vector<int64_t> places;
    for (int index : graph_.nodes()[node].parameters) {
      const auto& parameter = graph_.parameters()[index];
      if (parameter.nodes.front() != node || parameter.frozen) continue;
      const auto single = [&] { return empty(parameter.spec.shape, DType::f32, device_); };
      OptimizerSlot slot{single(), single(), {}, parameter.spec.decay};
      slot.name = parameter.name;
      for (const OptimizerState& state : optimizer_.states_of(parameter.spec.shape))
        slot.states.push_back(empty(state.shape, DType::f32, device_));
      if (working_dtype(precision_) != DType::f32) slot.working = empty(parameter.spec.shape, working_dtype(precision_), device_);
      result.owned_elements += slot.parameter.elements();
      if (optimizer_.ema > 0) averages.push_back({single(), slot.parameter});
      places.push_back(static_cast<int64_t>(places.size()));
      gradients.push_back(slot.gradient);
      slots.push_back(std::move(slot));
    }
    if (slots.empty()) return;
    result.times.step = timed([&] {
      sums_of_squares(gradients, empty({static_cast<int64_t>(places.size())}, DType::f64, device_), places);
      optimizer_.step(slots, {.learning_rate = 1e-3, .step = 1});
      moving_average_step(averages, optimizer_.ema_decay(1), {});
    });
  }

  const layers::Graph& graph_;
  Topology topology_;
  int64_t samples_;
  DevicePtr device_;
  Precision precision_;
  const Optimizer& optimizer_;
  layers::Tables tables_;
  std::vector<Tensor> values_;
};

}  // namespace

std::vector<NodeCount> count_nodes(const layers::Graph& graph, int64_t samples, const DevicePtr& device, Precision precision,
                                   const Optimizer& optimizer, SearchWatch* watch) {
  require(device->kind() == DeviceKind::meta, "count_nodes: needs a meta device, got ", device->name());
  WorkCounter counter(graph, samples, device, precision, optimizer);
  std::vector<NodeCount> counts;
  for (size_t node = 0; node < graph.nodes().size(); ++node) {
    if (watch) watch->check();
    counts.push_back(counter.count(static_cast<int>(node)));
  }
  return counts;
}

}  // namespace sluice::parallel
