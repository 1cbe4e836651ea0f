#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/optim/optimizer.h"
#include "core/device_speeds.h"
#include "parallel/plan.h"
#include "parallel/plan/node_bytes.h"
#include "parallel/plan/stage_chain.h"
#include "parallel/program/simulate.h"
#include "parallel/program/verify.h"
#include "parallel/run/batch_shape.h"
#include "parallel/run/device_links.h"
#include "parallel/run/executor.h"
#include "parallel/schedule/named.h"
#include "tests/parallel/random_graph.h"

/// Meta devices, `simulate` and the search give one number for one program.
namespace sluice::parallel {
namespace {

using testing::Draw;

constexpr double kRounding = 1e-9;
// So fast that what the search leaves out, such as sums of gradients over micro-batches, takes less than rounding.
constexpr double kFlopsPerSecond = 1e22;
const Link kWideArea{0.05, 125e6};
const AdamW kOptimizer({.lr = 1e-3});

/// A node that takes as many seconds as it is told, on a device of kFlopsPerSecond.
class Work : public layers::Module {
 public:
  struct Seconds {
    double forward, input_gradient, weight_gradient;
  };
  /// `width`  elements a sample of its value; 0 for the loss.
  Work(Seconds seconds, int64_t width) : seconds_(seconds), width_(width) {}

  layers::InputCount input_count() const override { return {1, layers::InputCount::kAny}; }
  std::vector<layers::ParameterSpec> parameters() const override { return {{"weight", {1}, layers::Initializer::ones()}}; }
  double loss_weight(const std::vector<Tensor>&, int64_t) const override { return 1; }

  Var forward(const layers::Call& call) const override {
    const Tensor& x = call.inputs[0].value();
    spend(x.device(), seconds_.forward * (width_ > 0 ? 1.0 : 1 + 0 * call.loss_scale));
    std::vector<Var> all(call.inputs.begin(), call.inputs.end());
    all.push_back(call.parameters[0]);
    std::vector<Shape> shapes;
    for (const Var& var : all) shapes.push_back(var.shape());
    const Tensor y = empty(width_ > 0 ? Shape{x.dim(0), width_} : Shape{}, DType::f32, x.device_ptr());
    return record("work", y, all, {x}, Attributes{seconds_, shapes}, gradients, {Needs::of(all.size() - 1)});
  }

 private:
  struct Attributes {
    Seconds seconds;
    std::vector<Shape> shapes;  ///< of the inputs and, last, the weight
  };

  static void spend(Device& device, double seconds) { device.count({.flops = seconds * kFlopsPerSecond}); }

  static Gradients gradients(const Node& node, const Tensor& dy, Needs needs) {
    const auto& [seconds, shapes] = node.attribute<Attributes>();
    Gradients all(shapes.size());
    bool of_data = false;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (needs[i]) all[i] = empty(shapes[i], DType::f32, dy.device_ptr());
      of_data = of_data || (needs[i] && i + 1 < shapes.size());
    }
    if (of_data) spend(dy.device(), seconds.input_gradient);
    if (needs[shapes.size() - 1]) spend(dy.device(), seconds.weight_gradient);
    return all;
  }

  Seconds seconds_;
  int64_t width_;
};

/// A chain with skips, whose values take from no time to many times their node's seconds on the slowest links.
layers::Graph random_model(Draw& draw) {
  const auto seconds = [&] { return draw.from(0, 40) / 100.0; };
  layers::Graph graph;
  std::vector<layers::Value> values{graph.input("x", {1})};
  std::vector<bool> is_read{true};
  const int nodes = draw.from(1, 8);
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> inputs{static_cast<int>(values.size()) - 1};
    if (draw.one_in(3) && values.size() > 2) inputs.push_back(draw.from(1, static_cast<int>(values.size()) - 2));
    std::vector<layers::Value> read;
    for (const int input : inputs) read.push_back(values[input]), is_read[input] = true;
    values.push_back(graph.add(join("n", node), Work({seconds(), seconds(), seconds()}, int64_t{1} << draw.from(0, 23)), read));
    is_read.push_back(false);
  }
  std::vector<layers::Value> rest;
  for (size_t i = 0; i < values.size(); ++i)
    if (!is_read[i]) rest.push_back(values[i]);
  graph.loss(graph.add("loss", Work({seconds(), seconds(), seconds()}, 0), rest));
  return graph;
}

std::vector<DevicePtr> random_devices(int count, Draw& draw) {
  const std::vector<Link> links{{0, 0}, {2e-6, 450e9}, {1e-5, 16e9}, {0.5, 1e8}, kWideArea};
  const bool are_alike = draw.one_in(2);
  const Link all = draw.of(links);
  std::vector<DevicePtr> devices;
  for (int i = 0; i < count; ++i) {
    const Link link = are_alike ? all : draw.of(links);
    const double speed = are_alike ? 1 : draw.from(1, 4) / 2.0;
    const DeviceSpeed of_device{speed * kFlopsPerSecond, 1e30, link.bytes_per_second, link.latency_seconds};
    devices.push_back(std::make_shared<Device>(DeviceKind::meta, i, Device::Options{.speed = of_device}));
  }
  return devices;
}

ModelCosts costs_of(const layers::Graph& graph, const std::vector<DevicePtr>& devices) {
  ModelCosts costs;
  for (size_t i = 0; i < devices.size(); ++i) {
    costs.kinds.push_back(model_bytes(graph, 1, Precision::f32, DeviceKind::cpu, kOptimizer));
    set_times(costs.kinds.back(), counted_nodes(graph, 1, devices[i]->options().speed, Precision::f32, kOptimizer));
    costs.kind_of_device.push_back(static_cast<int>(i));
  }
  return costs;
}

/// One instance: a model cut over devices, with an order of work.
struct Instance {
  layers::Graph graph;
  Topology topology;
  std::vector<DevicePtr> devices;
  ModelCosts costs;
  Partition partition;
  std::vector<bool> marks;
  Schedule schedule;
  StageCosts chain;  ///< as the search sees it
  std::vector<StageCost> stages;

  explicit Instance(uint64_t seed) {
    Draw draw(seed);
    graph = random_model(draw);
    topology = topology_of(graph);
    const int nodes = topology.node_count(), count = draw.from(1, nodes);
    partition.sizes.assign(count, 1);
    for (int more = nodes - count; more-- > 0;) ++partition.sizes[draw.from(0, count - 1)];
    for (int node = 0; node < nodes; ++node) marks.push_back(draw.one_in(3));
    choose_schedule(count, draw.from(1, 6), draw);
  }

  /// Any named one that the number of stages allows, or a searched one for stages anywhere.
  void choose_schedule(int count, int micro_batches, Draw& draw) {
    const int kind = draw.from(0, static_cast<int>(kNamedSchedules.size()));
    if (kind == static_cast<int>(kNamedSchedules.size())) return search_order(count, micro_batches, draw);
    const NamedSchedule name = kNamedSchedules[kind];
    const bool is_v = name == NamedSchedule::zb_v && count % 2 == 0;
    const int each = is_v || (name == NamedSchedule::interleaved && count % 2 == 0) ? 2 : 1;
    schedule = make_schedule(name == NamedSchedule::zb_v && !is_v ? NamedSchedule::one_f_one_b : name, count / each, micro_batches, each);
    place(draw);
  }

  void search_order(int count, int micro_batches, Draw& draw) {
    schedule.micro_batches = micro_batches;
    schedule.devices.resize(draw.from(1, count));
    for (int stage = 0; stage < count; ++stage)
      schedule.device_of_stage.push_back(stage < schedule.device_count() ? stage : draw.from(0, schedule.device_count() - 1));
    place(draw);
    schedule = search_schedule(chain, schedule.device_of_stage, micro_batches).schedule;
  }

  void place(Draw& draw) {
    devices = random_devices(schedule.device_count(), draw);
    costs = costs_of(graph, devices);
    stages = stage_costs(topology, costs, partition, schedule.device_of_stage, marks);
    chain = chain_of(topology, costs.any(), partition, stages, links_of(devices, nominal_speeds_of(devices, Precision::f32)));
  }

  SimulationCosts simulation_costs() const {
    SimulationCosts all{chain.forward, chain.backward, chain.input_gradient, chain.weight_gradient, chain.recompute, {}, {}, chain.links};
    all.step.assign(devices.size(), 0);
    for (size_t stage = 0; stage < stages.size(); ++stage) all.step[schedule.device_of_stage[stage]] += stages[stage].step;
    all.value_bytes.assign(topology.inputs.size(), 0);
    for (const NodeCost& node : costs.any().nodes) all.value_bytes.push_back(static_cast<double>(node.wire_bytes));
    all.norm = costs.any().norm;
    return all;
  }
};

Trace run_on_meta(const layers::Graph& graph, const Topology& topology, const Program& program, const std::vector<DevicePtr>& devices) {
  const Layout layout{topology, program.partition, program.device_of_stage, program.rematerialize, program.device_count(), true};
  Executor executor(graph, layout, devices, {.optimizer = &kOptimizer}, 1);
  const Batch batch = meta_batch(graph, program.micro_batches);
  RunContext context;
  context.batch = &batch;
  context.shape = shape_of(graph, batch);
  context.first_sample = micro_batch_bounds(batch.samples, program.micro_batches);
  context.training = program.training;
  return executor.run(program, context, {&kOptimizer, {1e-3, 1}}).trace;
}

/// The times of every action on the meta devices against those of the simulation.
void expect_equal_actions(const Program& program, const Trace& trace, const Timeline& timeline) {
  std::vector<size_t> first(program.devices.size(), 0);  // by device: its first event, as the trace is ordered by device
  for (size_t device = 1; device < first.size(); ++device) first[device] = first[device - 1] + program.devices[device - 1].size();
  for (const auto& action : timeline.actions) {
    const TraceEvent& event = trace.events.at(first[action.device] + action.index);
    ASSERT_NEAR(event.start, action.start, kRounding) << "action " << action.index << " of device " << action.device;
    ASSERT_NEAR(event.end, action.end, kRounding) << "action " << action.index << " of device " << action.device;
  }
}

TEST(OneClock, GivesOneNumberOnMetaDevicesInTheSimulationAndInTheSearchForAThousandPrograms) {
  int wide_area = 0, links = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(join("seed ", seed));
    const Instance instance(seed);
    const ScheduleTiming timing = time_schedule(instance.schedule, instance.chain);
    for (const TransferWindow& window : {kOpenWindow, TransferWindow{}, TransferWindow{0, 0}}) {
      const Program program = lower(instance.topology, instance.partition, instance.schedule, instance.marks, window);
      require_valid(instance.topology, program);
      const Timeline timeline = simulate(program, instance.simulation_costs());
      const Trace trace = run_on_meta(instance.graph, instance.topology, program, instance.devices);
      expect_equal_actions(program, trace, timeline);
      ASSERT_NEAR(trace.seconds, timeline.seconds, kRounding);
      ASSERT_NEAR(trace.bubble(), timeline.bubble, kRounding);
      if (window == kOpenWindow)
        ASSERT_NEAR(timing.step_seconds, timeline.seconds, kRounding);
      else
        ASSERT_LE(timing.step_seconds, timeline.seconds + kRounding) << "a narrower window holds transfers up";
    }
    links += instance.devices.size() > 1;
    wide_area += instance.devices.size() > 1 && instance.devices[1]->options().speed.link_latency_seconds == kWideArea.latency_seconds;
  }
  EXPECT_GT(links, 500);
  EXPECT_GT(wide_area, 100);
}

/// Stages of equal nodes, a second a device and micro-batch for each of F, I and W.
double seconds_on_meta(NamedSchedule name, int devices, int micro_batches, int virtual_stages) {
  const Schedule schedule = make_schedule(name, devices, micro_batches, virtual_stages);
  const int stages = schedule.stage_count();
  const double part = static_cast<double>(devices) / stages;
  layers::Graph graph;
  auto value = graph.add("start", Work({0, 0, 0}, 1), graph.input("x", {1}));  // so that the first stage has a gradient of data to make
  for (int stage = 0; stage < stages; ++stage)
    value = graph.add(join("n", stage), Work({part, part, part}, stage + 1 < stages ? 1 : 0), value);
  graph.loss(value);
  Partition partition = partition_uniform(stages, stages);
  ++partition.sizes[0];
  std::vector<DevicePtr> all;
  for (int i = 0; i < devices; ++i)
    all.push_back(std::make_shared<Device>(DeviceKind::meta, i, Device::Options{.speed = {kFlopsPerSecond, 1e30, 0, 0}}));
  const Topology topology = topology_of(graph);
  return run_on_meta(graph, topology, lower(topology, partition, schedule, std::vector<bool>(stages + 1)), all).seconds;
}

TEST(OneClock, KeepsTheClosedFormulasOnMetaDevices) {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 3 * p}) {
      SCOPED_TRACE(join("p ", p, ", M ", m));
      const auto bubble = [&](NamedSchedule name, int virtual_stages) { return seconds_on_meta(name, p, m, virtual_stages) - 3 * m; };
      EXPECT_NEAR(bubble(NamedSchedule::gpipe, 1), (p - 1) * 3, kRounding);
      EXPECT_NEAR(bubble(NamedSchedule::one_f_one_b, 1), (p - 1) * 3, kRounding);
      EXPECT_NEAR(bubble(NamedSchedule::interleaved, 2), (p - 1) * 3 / 2.0, kRounding);
      EXPECT_NEAR(bubble(NamedSchedule::interleaved, 3), (p - 1) * 3 / 3.0, kRounding);
      EXPECT_NEAR(bubble(NamedSchedule::zb_h1, 1), (p - 1), kRounding);
      EXPECT_NEAR(bubble(NamedSchedule::zb_v, 2), (p - 1) / 2.0, kRounding);
    }
}

/// Two values of one stage for the next, sent one directly after the other, over a link that both fill.
TEST(OneClock, LetsTwoTransfersOfAChannelWaitForEachOtherOnMetaDevices) {
  layers::Graph graph;
  const auto x = graph.input("x", {1});
  const auto a = graph.add("a", Work({1, 0, 0}, 25), x), b = graph.add("b", Work({1, 0, 0}, 25), a);
  graph.loss(graph.add("loss", Work({1, 0, 0}, 0), {a, b}));
  const std::vector<bool> keep(3);
  const Partition partition{{2, 1}};
  const Schedule schedule = forward_schedule({0, 1}, 1);
  const Topology topology = topology_of(graph);
  std::vector<DevicePtr> devices;
  for (int i = 0; i < 2; ++i)
    devices.push_back(std::make_shared<Device>(DeviceKind::meta, i, Device::Options{.speed = {kFlopsPerSecond, 1e30, 100, 3}}));
  const Trace trace = run_on_meta(graph, topology, lower(topology, partition, schedule, keep), devices);
  EXPECT_NEAR(trace.seconds, 2 + (1 + 1) + 3 + 1, kRounding) << "two forwards, two transfers of 100 bytes, latency, the loss";
}

}  // namespace
}  // namespace sluice::parallel
