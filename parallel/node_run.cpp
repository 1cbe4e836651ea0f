#include "parallel/node_run.h"

#include <algorithm>
#include <chrono>

#include "core/ops/moving_average.h"
#include "core/ops/reduction.h"
#include "core/ops/sums_of_squares.h"
#include "parallel/plan.h"

namespace sluice::parallel {

namespace {

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Transfer activation(int value, int from, int to) { return {Payload::activation, value, -1, from, to}; }
Transfer gradient(int value, int consumer, int to) { return {Payload::gradient, value, consumer, consumer, to}; }

}  // namespace

NodeRun::NodeRun(const layers::Graph& graph, const RunContext& context, DevicePtr device, const StageOptions& options, Cut cut)
    : graph_(graph),
      context_(context),
      topology_(topology_of(graph)),
      partition_{cut == Cut::whole ? std::vector<int>{static_cast<int>(graph.nodes().size())} : std::vector<int>(graph.nodes().size(), 1)},
      device_(std::move(device)),
      rematerialize_(options.rematerialize),
      last_use_(topology_.value_count(), -1),
      consumers_(topology_.value_count()) {
  for (int node = 0; node < topology_.node_count(); ++node)
    for (int value : topology_.nodes[node].inputs) {
      if (!is_last_use(value, node)) consumers_[value].push_back(node);
      last_use_[value] = node;
    }
  for (int stage = 0; stage < partition_.stage_count(); ++stage)
    stages_.push_back(std::make_unique<Stage>(graph_, topology_, partition_, stage, device_, options));
}

template <class Work>
void NodeRun::timed(int node, Part part, const Work& work) {
  const bool counts = device_->kind() == DeviceKind::meta;
  Moment begin = device_->record(true);
  const double start = counts ? device_->clock_seconds() : seconds_now();
  work();
  const double end = counts ? device_->clock_seconds() : seconds_now();
  spans_.push_back({{node, part, end - start}, std::move(begin), device_->record(true)});
}

/// Hands the values over as transfers within a device do, and lets go of them where their last consumer has them.
void NodeRun::receive_activations(int node, int micro_batch) {
  if (is_whole()) return;
  for (int value : topology_.nodes[node].inputs) {
    const int from = topology_.node_of(value);
    if (from < 0) continue;
    stages_[node]->incoming(activation(value, from, node), micro_batch,
                            stages_[from]->outgoing(activation(value, from, node), micro_batch));
    if (is_last_use(value, node)) stages_[from]->free({Buffer::Kind::value, from, micro_batch, value});
  }
}

void NodeRun::free_inputs(int node, int micro_batch) {
  if (is_whole()) return;
  for (int value : topology_.nodes[node].inputs) stages_[node]->free({Buffer::Kind::value, node, micro_batch, value});
}

void NodeRun::forward(int micro_batch) {
  for (int stage = 0; stage < stage_count(); ++stage) {
    receive_activations(stage, micro_batch);
    timed(node_of(stage), &NodeTimes::forward, [&] { stages_[stage]->forward(context_, micro_batch); });
    if (!rematerialize_[stage]) free_inputs(stage, micro_batch);
  }
}

void NodeRun::recompute(int micro_batch) {
  for (int stage = 0; stage < stage_count(); ++stage) {
    timed(node_of(stage), &NodeTimes::recompute, [&] { stages_[stage]->recompute(context_, micro_batch); });
    free_inputs(stage, micro_batch);
  }
}

void NodeRun::receive_gradients(int node, int micro_batch) {
  const int value = topology_.value_of(node);
  if (is_whole() || !topology_.differentiable[value]) return;
  for (auto consumer = consumers_[value].rbegin(); consumer != consumers_[value].rend(); ++consumer) {
    if (!topology_.differentiable[topology_.value_of(*consumer)]) continue;
    const Transfer transfer = gradient(value, *consumer, node);
    stages_[node]->incoming(transfer, micro_batch, stages_[*consumer]->outgoing(transfer, micro_batch));
    stages_[*consumer]->free({Buffer::Kind::gradient, *consumer, micro_batch, value, *consumer});
  }
}

void NodeRun::backwards(int micro_batch, Part part, void (Stage::*action)(int)) {
  for (int stage = stage_count() - 1; stage >= 0; --stage) {
    if (part != &NodeTimes::weight_gradient) receive_gradients(stage, micro_batch);
    timed(node_of(stage), part, [&] {
      (stages_[stage].get()->*action)(micro_batch);
      if (part != &NodeTimes::input_gradient) stages_[stage]->free({Buffer::Kind::tape, stage, micro_batch});
    });
  }
}

void NodeRun::backward(int micro_batch) { backwards(micro_batch, &NodeTimes::backward, &Stage::backward); }
void NodeRun::input_gradient(int micro_batch) { backwards(micro_batch, &NodeTimes::input_gradient, &Stage::input_gradient); }
void NodeRun::weight_gradient(int micro_batch) { backwards(micro_batch, &NodeTimes::weight_gradient, &Stage::weight_gradient); }

void NodeRun::step(const Optimizer& optimizer) {
  timed(-1, &NodeTimes::step, [&] {
    std::vector<OptimizerSlot> slots;
    std::vector<MovingAverage> averages;
    if (is_whole())
      for (size_t tied = 0; tied < topology_.tied.size(); ++tied) stages_[0]->reduce_tied(static_cast<int>(tied));
    for (const auto& stage : stages_) {
      std::ranges::move(stage->slots(1), std::back_inserter(slots));
      std::ranges::move(stage->averages(), std::back_inserter(averages));
    }
    std::vector<Tensor> gradients;
    std::vector<int64_t> places;
    for (const auto& slot : slots) {
      places.push_back(static_cast<int64_t>(places.size()));
      gradients.push_back(slot.gradient);
    }
    const Tensor norms = zeros({static_cast<int64_t>(places.size())}, DType::f64, device_);
    sums_of_squares(gradients, norms, places);
    const Tensor norm = sum(norms);
    optimizer.apply(slots, {optimizer.rate.at(0), 1, {norm, 0}});
    moving_average_step(averages, optimizer.ema_decay(1), norm);
    for (const auto& stage : stages_) stage->statistics().commit(norm, optimizer.ema_decay(1));
  });
}

std::vector<NodeRun::Sample> NodeRun::take_samples() {
  device_->synchronize();
  std::vector<Sample> samples;
  for (auto& span : spans_) {
    if (span.begin) span.sample.seconds = seconds_between(span.begin, span.end);
    samples.push_back(span.sample);
  }
  spans_.clear();
  return samples;
}

}  // namespace sluice::parallel
