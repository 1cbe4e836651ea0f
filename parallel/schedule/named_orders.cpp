#include "parallel/schedule/named_orders.h"

#include <algorithm>
#include <array>

namespace sluice::parallel {

namespace {

using Order = std::vector<ComputeAction>;

/// Appends actions of the stages of one device, each kind and stage in ascending micro-batches.
class Writer {
 public:
  explicit Writer(int stages) : next_(stages) {}

  void add(Compute kind, int stage) { order_.push_back({kind, stage, next_[stage][static_cast<int>(kind)]++}); }
  int count(Compute kind, int stage) const { return next_[stage][static_cast<int>(kind)]; }

  /// Leaves out what is of no micro-batch below `micro_batches`. What is left of an order without circles has none.
  Order take(int micro_batches) {
    std::erase_if(order_, [=](const ComputeAction& action) { return action.micro_batch >= micro_batches; });
    return std::move(order_);
  }

 private:
  std::vector<std::array<int, 4>> next_;  // by stage and kind
  Order order_;
};

}  // namespace

Order gpipe_order(int device, int, int micro_batches, int) {
  Writer order(device + 1);
  for (int m = 0; m < micro_batches; ++m) order.add(Compute::forward, device);
  for (int m = 0; m < micro_batches; ++m) order.add(Compute::backward, device);
  return order.take(micro_batches);
}

/// Once the warm-up has filled the stages behind this one, each forward is paid for by a backward.
Order one_forward_one_backward_order(int device, int devices, int micro_batches, int) {
  const int warm_up = std::min(devices - 1 - device, micro_batches);
  Writer order(device + 1);
  for (int m = 0; m < warm_up; ++m) order.add(Compute::forward, device);
  for (int m = warm_up; m < micro_batches; ++m) {
    order.add(Compute::forward, device);
    order.add(Compute::backward, device);
  }
  for (int m = 0; m < warm_up; ++m) order.add(Compute::backward, device);
  return order.take(micro_batches);
}

/// Units of work go through groups of p micro-batches: all of a group through the device's first stage, then through its second, ...
/// A last group of fewer is made whole and its surplus left out: a shorter group could wait in a circle.
Order interleaved_order(int device, int devices, int micro_batches, int virtual_stages) {
  if (virtual_stages == 1) return one_forward_one_backward_order(device, devices, micro_batches, 1);
  const int p = devices, v = virtual_stages;
  const int units = (micro_batches + p - 1) / p * p * v;
  const int warm_up = std::min(2 * (p - 1 - device) + (v - 1) * p, units);
  const auto stage = [=](int chunk) { return chunk * p + device; };
  Writer order(p * v);
  const auto forward = [&](int unit) { order.add(Compute::forward, stage(unit / p % v)); };
  const auto backward = [&](int unit) { order.add(Compute::backward, stage(v - 1 - unit / p % v)); };
  for (int unit = 0; unit < warm_up; ++unit) forward(unit);
  for (int unit = warm_up; unit < units; ++unit) {
    forward(unit);
    backward(unit - warm_up);
  }
  for (int unit = units - warm_up; unit < units; ++unit) backward(unit);
  return order.take(micro_batches);
}

/// As 1F1B, with I in the place of B. A W is done when p micro-batches wait for theirs, and in the drain, where forwards are missing.
Order zb_h1_order(int device, int devices, int micro_batches, int) {
  Writer order(device + 1);
  const auto count = [&](Compute kind) { return order.count(kind, device); };
  const auto weight = [&] {
    if (count(Compute::weight_gradient) < count(Compute::input_gradient)) order.add(Compute::weight_gradient, device);
  };
  while (count(Compute::input_gradient) < micro_batches) {
    while (count(Compute::forward) < micro_batches && count(Compute::forward) - count(Compute::input_gradient) < devices - device) {
      if (count(Compute::forward) - count(Compute::weight_gradient) == devices) weight();
      order.add(Compute::forward, device);
    }
    order.add(Compute::input_gradient, device);
    if (count(Compute::forward) == micro_batches) weight();
  }
  while (count(Compute::weight_gradient) < micro_batches) weight();
  return order.take(micro_batches);
}

/// The steps of the handcrafted schedule of arXiv 2405.15362, with n0, n1 for the numbers of forwards of the device's two stages.
/// It fills from 2p - 1 micro-batches on; fewer are made up and left out.
Order zb_v_order(int device, int devices, int micro_batches, int) {
  using enum Compute;
  const int first = device, second = 2 * devices - 1 - device;
  const int m = std::max(micro_batches, 2 * devices - 1);
  Writer order(2 * devices);
  const auto add = [&](int times, std::initializer_list<std::pair<Compute, int>> actions) {
    for (int i = 0; i < times; ++i)
      for (const auto& [kind, stage] : actions) order.add(kind, stage);
  };
  add(2 * (devices - device) - 1, {{forward, first}});
  add(device, {{forward, second}, {forward, first}});
  add(devices - device, {{forward, second}, {input_gradient, second}, {weight_gradient, second}});
  while (order.count(forward, second) < m) {
    if (order.count(forward, first) < m) add(1, {{forward, first}});
    add(1, {{input_gradient, first}, {weight_gradient, first}});
    add(1, {{forward, second}, {input_gradient, second}, {weight_gradient, second}});
  }
  add(device, {{input_gradient, first}, {input_gradient, second}});
  add(devices - device, {{input_gradient, first}, {weight_gradient, first}});
  add(m - order.count(weight_gradient, second), {{weight_gradient, second}});
  add(m - order.count(weight_gradient, first), {{weight_gradient, first}});
  return order.take(micro_batches);
}

/// One action a device and round; a stage may take what the stage before it has finished in an earlier round.
std::vector<Order> forward_orders(const std::vector<int>& device_of_stage, int devices, int micro_batches) {
  const int stages = static_cast<int>(device_of_stage.size());
  std::vector<Order> orders(devices);
  std::vector<int> done(stages, 0);
  while (done.back() < micro_batches) {
    const std::vector<int> before = done;
    std::vector<bool> busy(devices, false);
    for (int stage = stages - 1; stage >= 0; --stage) {
      const int available = stage == 0 ? micro_batches : before[stage - 1];
      const int device = device_of_stage[stage];
      if (busy[device] || done[stage] == available) continue;
      busy[device] = true;
      orders[device].push_back({Compute::forward, stage, done[stage]++});
    }
  }
  return orders;
}

}  // namespace sluice::parallel
