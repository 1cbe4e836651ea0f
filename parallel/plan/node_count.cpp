#include "parallel/plan/node_count.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "autograd/backward.h"
#include "autograd/recorded_ops.h"
#include "core/ops/elementwise.h"
#include "core/ops/moving_average.h"
#include "core/ops/padded_rows.h"
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

/// Runs all nodes forward and then backward on a meta device, as one stage would: a gradient comes as the node behind it leaves it.
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
        values_(topology_.value_count()),
        gradients_(topology_.value_count()),
        runs_(graph.nodes().size()) {
    for (size_t input = 0; input < graph.inputs().size(); ++input) values_[input] = input_tensor(graph.inputs()[input]);
  }

  std::vector<NodeCount> count(SearchWatch* watch) {
    const int nodes = topology_.node_count();
    for (int node = 0; node < nodes; ++node) at(node, watch, [&] { count_forward(node, runs_[node]); });
    for (int node = nodes - 1; node >= 0; --node) at(node, watch, [&] { count_backward(node, runs_[node]); });
    std::vector<NodeCount> counts;
    for (Run& run : runs_) counts.push_back(std::move(run.count));
    return counts;
  }

 private:
  struct Run {
    Run() { work.imbue(std::locale::classic()); }
    layers::Call call;
    Var y;
    Cost cost;
    std::ostringstream work;
    NodeCount count;
  };

  template <class Work>
  void at(int node, SearchWatch* watch, const Work& work) {
    if (watch) watch->check();
    const WhereScope place({graph_.nodes()[node].name.c_str()});
    located(work);
  }

  void count_forward(int node, Run& run) {
    run.call = call_of(node);
    const Cost before = device_->counted();  // without a table that this node is the first to read: it is made once, not a step
    for (const auto& input : run.call.inputs) add_type(run.work, input.value());
    run.work << "; parameters";
    for (const auto& parameter : run.call.parameters) add_type(run.work, parameter.value());
    Tensor& made = values_[topology_.value_of(node)];
    NodeTimes& times = run.count.times;
    times.forward = times.recompute = timed([&] {
      run.y = graph_.nodes()[node].module->forward(run.call);
      made = handed_on(run.y.value());
    });
    run.work << recorded_ops(run.y.node());
    run.cost = device_->counted() - before;
    times.copy = timed([&] { made.dense(); });
  }

  void count_backward(int node, Run& run) {
    const Cost before = device_->counted();
    if (run.y.node() && topology_.differentiable[topology_.value_of(node)]) {  // else no gradient comes
      Tensor& arrived = gradients_[topology_.value_of(node)];
      const Tensor dy = arrived.defined() ? std::exchange(arrived, Tensor()) : empty_like(run.y.value());
      run.count.times.backward = whole_backward(node, run.call, {std::exchange(run.y, Var()), dy});
      count_split(node, dy, run.count.times);
      count_accumulation(node, dy, run.count);
    }
    run.call = {};
    count_step(node, run.count);
    run.cost += device_->counted() - before;
    run.work << "; " << run.cost.flops << ' ' << run.cost.bytes_read << ' ' << run.cost.bytes_written << " step "
             << run.count.owned_elements;
    run.count.work = std::move(run.work).str();
  }

  double whole_backward(int node, const layers::Call& call, Backward backward) {
    return timed([&] {
      backward.run();
      hand_on_gradients(node, call, backward);
    });
  }

  /// As Stage::distribute does with those that stay. Of several for one value the first one's memory holds the sum.
  void hand_on_gradients(int node, const layers::Call& call, Backward& backward) {
    const auto& inputs = topology_.nodes[node].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor gradient = topology_.contributes(node, inputs[i]) ? backward.take(call.inputs[i]) : Tensor();
      if (!gradient.defined()) continue;
      const Tensor contribution = handed_on(gradient);
      if (!gradients_[inputs[i]].defined()) gradients_[inputs[i]] = contribution;
    }
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

  void count_split(int node, const Tensor& dy, NodeTimes& times) {
    const layers::Call call = call_of(node);
    Backward backward(graph_.nodes()[node].module->forward(call), dy);
    times.input_gradient = timed([&] {
      backward.run_inputs();
      hand_on_gradients(node, call, backward);
    });
    times.weight_gradient = timed([&] { backward.run_weights(); });
  }

  /// With sums of the micro-batches before: on GPUs products add to them, elsewhere a pass over memory does.
  void count_accumulation(int node, const Tensor& dy, NodeCount& result) {
    const layers::Call call = call_of(node);
    for (size_t i = 0; i < call.parameters.size(); ++i)
      if (const NodePtr& leaf = call.parameters[i].node()) leaf->accumulator = empty(call.parameters[i].shape(), DType::f32, device_);
    const double seconds = whole_backward(node, call, {graph_.nodes()[node].module->forward(call), dy});
    result.accumulation = std::max(0.0, seconds - result.times.backward);
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
  std::vector<Tensor> gradients_;  // by value: as its readers leave them, until its maker has come to it
  std::vector<Run> runs_;          // by node
};

}  // namespace

std::vector<NodeCount> count_nodes(const layers::Graph& graph, int64_t samples, const DevicePtr& device, Precision precision,
                                   const Optimizer& optimizer, SearchWatch* watch) {
  require(device->kind() == DeviceKind::meta, "count_nodes: needs a meta device, got ", device->name());
  return WorkCounter(graph, samples, device, precision, optimizer).count(watch);
}

}  // namespace sluice::parallel
