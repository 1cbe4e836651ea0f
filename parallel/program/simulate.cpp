#include "parallel/program/simulate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/error.h"
#include "parallel/program/replay.h"

namespace sluice::parallel {

namespace {

double at(const std::vector<double>& costs, int index, const char* name) {
  require(index >= 0 && index < static_cast<int>(costs.size()), "simulate: the program needs the cost ", name, "[", index, "], got ",
          costs.size(), " entries; profile the model with this plan");
  return costs[index];
}

bool is_on_micro_batch(const Action& action) { return action.micro_batch >= 0 && action.transfer.payload == Payload::none; }

/// One clock a device, one more for each direction of each pair of devices.
class Clocks {
 public:
  Clocks(const Program& program, const SimulationCosts& costs, const Messages& messages)
      : program_(program), costs_(costs), messages_(messages), now_(program.devices.size(), 0.0), arrival_(messages.count()) {
    timeline_.busy.assign(program.devices.size(), 0.0);
    spans_.resize(program.devices.size());
  }

  void run(int device, int index) {
    const Action& action = program_.devices[device][index];
    const double start = now_[device];
    if (action.kind == ActionKind::send) {
      arrival_[messages_.of(device, index)] = arrival(action.transfer, start);
    } else if (action.kind == ActionKind::recv) {
      now_[device] = std::max(start, arrival_[messages_.of(device, index)]);
    } else {
      const double seconds = compute_seconds(action, device);
      now_[device] += seconds;
      timeline_.busy[device] += seconds;
      if (is_on_micro_batch(action)) spans_[device].add(start, now_[device]);
    }
    timeline_.actions.push_back({device, index, start, now_[device]});
  }

  Timeline finish() {
    std::sort(timeline_.actions.begin(), timeline_.actions.end(), [](const SimulatedAction& a, const SimulatedAction& b) {
      return std::tie(a.start, a.device, a.index) < std::tie(b.start, b.device, b.index);
    });
    for (double end : now_) timeline_.seconds = std::max(timeline_.seconds, end);
    const double mean_busy = std::accumulate(timeline_.busy.begin(), timeline_.busy.end(), 0.0) / static_cast<double>(now_.size());
    if (timeline_.seconds > 0) timeline_.bubble = 1 - mean_busy / timeline_.seconds;
    for (const Span& span : spans_) timeline_.span_bubble = std::max(timeline_.span_bubble, span.idle());
    return std::move(timeline_);
  }

 private:
  /// From the first to the last computation on micro-batches.
  struct Span {
    double first = -1, last = 0, busy = 0;
    void add(double start, double end) {
      if (first < 0) first = start;
      last = end;
      busy += end - start;
    }
    double idle() const { return first < 0 ? 0 : last - first - busy; }
  };

  double compute_seconds(const Action& action, int device) const {
    switch (action.kind) {
      case ActionKind::forward:
        return at(costs_.forward, action.stage, "forward");
      case ActionKind::backward:
        return at(costs_.backward, action.stage, "backward");
      case ActionKind::input_gradient:
        return at(costs_.input_gradient, action.stage, "input_gradient");
      case ActionKind::weight_gradient:
        return at(costs_.weight_gradient, action.stage, "weight_gradient");
      case ActionKind::recompute:
        return at(costs_.recompute, action.stage, "recompute");
      case ActionKind::step:
        return costs_.step.empty() ? 0 : at(costs_.step, device, "step");
      default:
        return 0;
    }
  }

  double arrival(const Transfer& transfer, double start) {
    const int from = device_of(transfer, transfer.from), to = device_of(transfer, transfer.to);
    if (from == to) return start;
    const Link link = costs_.links.between(from, to);
    double& link_free = link_free_[{from, to}];
    link_free = std::max(link_free, start) + link.wire_seconds(wire_bytes(transfer));
    return link_free + link.latency_seconds;  // the next transfer may follow while this one is under way
  }

  int device_of(const Transfer& transfer, int end) const { return transfer.between_devices() ? end : program_.device_of_stage[end]; }

  /// Norms and tied parameters cross once a mini-batch: only their latency is counted.
  double wire_bytes(const Transfer& transfer) const {
    if (!transfer.of_micro_batch() || costs_.value_bytes.empty()) return 0;
    return at(costs_.value_bytes, transfer.value, "value_bytes");
  }

  const Program& program_;
  const SimulationCosts& costs_;
  const Messages& messages_;
  std::vector<double> now_;                          // by device
  std::vector<double> arrival_;                      // by message
  std::map<std::pair<int, int>, double> link_free_;  // by sending and receiving device
  std::vector<Span> spans_;                          // by device
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Program& program, const SimulationCosts& costs) {
  require(program.device_count() > 0, "simulate: needs a program with at least one device, got none");
  const Messages messages(program);
  Clocks clocks(program, costs, messages);
  const std::vector<int> position = replay(program, messages, [&](int device, int index) { clocks.run(device, index); });
  for (int device = 0; device < program.device_count(); ++device)
    require(position[device] == static_cast<int>(program.devices[device].size()), "simulate: device ", device,
            " waits for ever at its action ", position[device], "; verify the program first");
  return clocks.finish();
}

}  // namespace sluice::parallel
