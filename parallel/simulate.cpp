#include "parallel/simulate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "core/error.h"
#include "parallel/replay.h"

namespace sluice::parallel {

namespace {

double at(const std::vector<double>& costs, int index, const char* name) {
  require(index >= 0 && index < static_cast<int>(costs.size()), "simulate: the program needs the cost ", name, "[", index, "], got ",
          costs.size(), " entries; profile the model with this plan");
  return costs[index];
}

/// One clock a device, one more for each direction of each pair of devices.
class Clocks {
 public:
  Clocks(const Program& program, const SimulationCosts& costs) : program_(program), costs_(costs), now_(program.devices.size(), 0.0) {
    timeline_.busy.assign(program.devices.size(), 0.0);
  }

  void run(int device, int index) {
    const Action& action = program_.devices[device][index];
    const double start = now_[device];
    if (action.kind == ActionKind::send) {
      arrival_[{action.transfer, action.micro_batch}] = arrival(action.transfer, start);
    } else if (action.kind == ActionKind::recv) {
      now_[device] = std::max(start, arrival_.at({action.transfer, action.micro_batch}));
    } else {
      const double seconds = compute_seconds(action, device);
      now_[device] += seconds;
      timeline_.busy[device] += seconds;
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
    return std::move(timeline_);
  }

 private:
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
    const int from = device_of(transfer, transfer.from);
    const int to = device_of(transfer, transfer.to);
    if (from == to) return start;
    double& link_free = link_free_[{from, to}];
    link_free = std::max(link_free, start) + wire_seconds(transfer);
    return link_free + costs_.latency_seconds;  // the next transfer may follow while this one is under way
  }

  int device_of(const Transfer& transfer, int end) const { return transfer.between_devices() ? end : program_.device_of_stage[end]; }

  /// Norms and tied parameters cross once a mini-batch: only their latency is counted.
  double wire_seconds(const Transfer& transfer) const {
    if (!transfer.of_micro_batch() || costs_.value_bytes.empty() || costs_.bytes_per_second == 0) return 0;
    return at(costs_.value_bytes, transfer.value, "value_bytes") / costs_.bytes_per_second;
  }

  const Program& program_;
  const SimulationCosts& costs_;
  std::vector<double> now_;                             // by device
  std::map<std::pair<int, int>, double> link_free_;     // by sending and receiving device
  std::map<std::pair<Transfer, int>, double> arrival_;  // by transfer and micro-batch
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Program& program, const SimulationCosts& costs) {
  require(program.device_count() > 0, "simulate: needs a program with at least one device, got none");
  Clocks clocks(program, costs);
  const std::vector<int> position = replay(program, [&](int device, int index) { clocks.run(device, index); });
  for (int device = 0; device < program.device_count(); ++device)
    require(position[device] == static_cast<int>(program.devices[device].size()), "simulate: device ", device,
            " waits for ever at its action ", position[device], "; verify the program first");
  return clocks.finish();
}

}  // namespace sluice::parallel
