#include "parallel/program/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "parallel/program/clock.h"
#include "parallel/program/link_sharing.h"
#include "parallel/program/replay.h"

namespace sluice::parallel {

namespace {

double at(const std::vector<double>& costs, int index, const char* name) {
  require(index >= 0 && index < static_cast<int>(costs.size()), "simulate: the program needs the cost ", name, "[", index, "], got ",
          costs.size(), " entries; profile the model with this plan");
  return costs[index];
}

bool is_on_micro_batch(const Action& action) { return action.micro_batch >= 0 && action.transfer.payload == Payload::none; }

/// From the first to the last computation of a device on micro-batches.
struct Span {
  double first = -1, last = 0, busy = 0;
  void add(double start, double end) {
    if (first < 0) first = start;
    last = end;
    busy += end - start;
  }
  double idle() const { return first < 0 ? 0 : last - first - busy; }
};

double compute_seconds(const Action& action, int device, const SimulationCosts& costs) {
  switch (action.kind) {
    case ActionKind::forward:
      return at(costs.forward, action.stage, "forward");
    case ActionKind::backward:
      return at(costs.backward, action.stage, "backward");
    case ActionKind::input_gradient:
      return at(costs.input_gradient, action.stage, "input_gradient");
    case ActionKind::weight_gradient:
      return at(costs.weight_gradient, action.stage, "weight_gradient");
    case ActionKind::recompute:
      return at(costs.recompute, action.stage, "recompute");
    case ActionKind::shard_gradients:
      return costs.shard_gradients.empty() ? 0 : at(costs.shard_gradients, action.stage, "shard_gradients");
    case ActionKind::fold_shards:
      return costs.fold_shards.empty() ? 0 : at(costs.fold_shards, action.stage, "fold_shards");
    case ActionKind::step:
      return costs.step.empty() ? 0 : at(costs.step, device, "step");
    default:
      return 0;
  }
}

/// What crosses once a mini-batch takes the bytes that were counted; before that only its latency.
double wire_bytes(const Action& action, const SimulationCosts& costs) {
  const Transfer& transfer = action.transfer;
  if (!transfer.of_micro_batch() && action.bytes > 0) return static_cast<double>(action.bytes);
  if (transfer.payload == Payload::norm_part) return costs.norm.part;
  if (transfer.payload == Payload::norm) return costs.norm.norm;
  const bool is_tied = transfer.payload == Payload::tied_gradient || transfer.payload == Payload::tied_weight;
  if (is_tied && !costs.tied.empty()) {
    const TiedBytes& tied = costs.tied.at(static_cast<size_t>(transfer.value));
    return transfer.payload == Payload::tied_gradient ? tied.gradient : tied.weight;
  }
  if (!transfer.of_micro_batch()) return 0;
  return costs.value_bytes.empty() ? 0 : at(costs.value_bytes, transfer.value, "value_bytes");
}

/// Takes the actions in any order that replay gives.
class Simulation {
 public:
  Simulation(const Program& program, const SimulationCosts& costs, const Messages& messages)
      : program_(program),
        costs_(costs),
        messages_(messages),
        clock_(program.device_count(), costs.links),
        sharing_(program, clock_.links()),
        transfers_(messages.count()),
        spans_(program.devices.size()) {}

  void run(int device, int index) {
    const Action& action = program_.devices[device][index];
    const double start = clock_.now(device);
    action.is_transfer() ? transfer(action, device, messages_.of(device, index))
                         : clock_.compute(device, compute_seconds(action, device, costs_));
    if (is_on_micro_batch(action)) spans_[device].add(start, clock_.now(device));
    actions_.push_back({device, index, start, clock_.now(device)});
  }

  Timeline finish() {
    Timeline timeline;
    timeline.actions = std::move(actions_);
    std::sort(timeline.actions.begin(), timeline.actions.end(), [](const SimulatedAction& a, const SimulatedAction& b) {
      return std::tie(a.start, a.device, a.index) < std::tie(b.start, b.device, b.index);
    });
    timeline.seconds = clock_.seconds();
    timeline.bubble = clock_.bubble();
    for (int device = 0; device < program_.device_count(); ++device) timeline.busy.push_back(clock_.busy(device));
    for (const Span& span : spans_) timeline.span_bubble = std::max(timeline.span_bubble, span.idle());
    return timeline;
  }

 private:
  struct MessageTimes {
    double sent = 0, posted = 0;
    std::optional<Clock::Transferred> transferred;
  };
  using ChannelEnds = std::pair<int, int>;  // sending and receiving device
  struct Sent {
    int message;
    double bytes;
    int sharing;
  };

  void transfer(const Action& action, int device, int message) {
    MessageTimes& times = transfers_[message];
    const ChannelEnds ends{program_.sender(action.transfer), program_.receiver(action.transfer)};
    if (action.kind == ActionKind::send) {
      times.sent = clock_.now(device);
      if (ends.first != ends.second) under_way_[ends].push_back({message, wire_bytes(action, costs_), sharing_.of(action.transfer)});
    } else if (action.kind == ActionKind::recv_post) {
      times.posted = clock_.now(device);
    } else if (ends.first != ends.second) {
      transfer_until(message, ends);
      clock_.wait(device, action.kind == ActionKind::recv ? times.transferred->arrived : times.transferred->sent);
    }
  }

  /// Runs the transfers of a channel up to this one, which replay has found to be done.
  void transfer_until(int message, const ChannelEnds& ends) {
    for (auto& queue = under_way_[ends]; !transfers_[message].transferred; queue.pop_front()) {
      const auto [next, bytes, sharing] = queue.front();
      MessageTimes& times = transfers_[next];
      times.transferred = clock_.transfer(ends.first, ends.second, std::max(times.sent, times.posted), bytes, sharing);
    }
  }

  const Program& program_;
  const SimulationCosts& costs_;
  const Messages& messages_;
  Clock clock_;
  LinkSharing sharing_;
  std::vector<MessageTimes> transfers_;                // by message
  std::map<ChannelEnds, std::deque<Sent>> under_way_;  // in the order of the Sends
  std::vector<Span> spans_;                            // by device
  std::vector<SimulatedAction> actions_;
};

}  // namespace

Timeline simulate(const Program& program, const SimulationCosts& costs) {
  require(program.device_count() > 0, "simulate: needs a program with at least one device, got none");
  const Messages messages(program);
  Simulation simulation(program, costs, messages);
  const std::vector<int> position = replay(program, messages, [&](int device, int index) { simulation.run(device, index); });
  for (int device = 0; device < program.device_count(); ++device)
    require(position[device] == static_cast<int>(program.devices[device].size()), "simulate: device ", device,
            " waits for ever at its action ", position[device], "; verify the program first");
  return simulation.finish();
}

}  // namespace sluice::parallel
