#include "parallel/program/channels.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>

#include "parallel/program/replay.h"

namespace sluice::parallel {

namespace {

/// Runs a program of Sends and Recvs on clocks, all devices in one order, and calls `sent` at each Send between devices.
class VirtualRun {
 public:
  /// A Send at `index` of its device's list. Its receiver comes to `receiver_at` of its own list next, and works until then or has been idle.
  struct Sent {
    int device, index, receiver, receiver_at;
    bool is_receiver_busy;
  };

  explicit VirtualRun(const Program& program)
      : program_(program),
        messages_(program),
        stages_(program.devices.size()),
        now_(stages_.size(), 0.0),
        worked_until_(now_),
        position_(stages_.size(), 0),
        is_sent_(messages_.count()),
        waiting_(messages_.count(), -1) {
    for (const int device : program.device_of_stage) ++stages_[device];
  }

  /// First all work on micro-batches, so that the end of the step begins when the last device comes to it.
  std::vector<Sent> run() {
    run(true);
    const double begin = *std::max_element(now_.begin(), now_.end());
    std::fill(now_.begin(), now_.end(), begin);
    run(false);
    for (int device = 0; device < program_.device_count(); ++device)  // what waits for ever
      while (!at_end(device)) act(device);
    return std::move(sent_);
  }

 private:
  using Turn = std::tuple<double, bool, int>;  // time, is a Send, device: at one time what begins goes before what is sent

  bool at_end(int device) const { return position_[device] == static_cast<int>(program_.devices[device].size()); }
  const Action& current(int device) const { return program_.devices[device][position_[device]]; }

  void run(bool only_micro_batches) {
    only_micro_batches_ = only_micro_batches;
    for (int device = 0; device < program_.device_count(); ++device) add_turn(device);
    while (!turns_.empty()) {
      const int device = std::get<int>(turns_.top());
      turns_.pop();
      act(device);
      add_turn(device);
    }
  }

  /// None for a device whose next action waits; that comes with the Send.
  void add_turn(int device) {
    if (at_end(device)) return;
    const Action& action = current(device);
    if (only_micro_batches_ && action.phase() > 0) return;
    const int message = messages_.of(device, position_[device]);
    if (action.kind == ActionKind::recv && !is_sent_[message]) {
      waiting_[message] = device;
      return;
    }
    turns_.push({now_[device], action.kind == ActionKind::send, device});
  }

  void act(int device) {
    const Action& action = current(device);
    const int index = position_[device]++;
    if (action.kind == ActionKind::send)
      send(device, index, action);
    else if (action.kind != ActionKind::recv)
      worked_until_[device] = now_[device] += seconds(action, device);
  }

  void send(int device, int index, const Action& action) {
    const int to = program_.receiver(action.transfer), message = messages_.of(device, index);
    is_sent_[message] = true;
    if (to != device) sent_.push_back({device, index, to, position_[to], worked_until_[to] >= now_[device]});
    if (waiting_[message] < 0) return;
    now_[to] = std::max(now_[to], now_[device]);
    add_turn(to);
  }

  double seconds(const Action& action, int device) const {
    if (action.micro_batch < 0) return 0;
    return (action.kind == ActionKind::backward ? 2.0 : 1.0) / stages_[device];
  }

  const Program& program_;
  const Messages messages_;
  std::vector<int> stages_;                 // by device: how many
  std::vector<double> now_, worked_until_;  // by device
  std::vector<int> position_;
  std::vector<char> is_sent_;  // by message
  std::vector<int> waiting_;   // by message: the device that waits for it, or -1
  bool only_micro_batches_ = true;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
  std::vector<Sent> sent_;
};

/// One device's list with what is put before its actions, or at its end.
class Insertions {
 public:
  explicit Insertions(std::vector<Action>& actions) : actions_(actions), waits_(actions.size() + 1), posts_(actions.size() + 1) {
    for (int index = 0; index < size(); ++index)
      if (!actions_[index].is_transfer()) computing_.push_back(index);
  }

  const Action& at(int index) const { return actions_[index]; }

  /// Behind the action that comes `behind` computing ones after the Send at `index`; behind all Sends of what made it when that is 0. What
  /// leaves at the end of a stage's work is waited for when all work on micro-batches is done: none of it has to wait.
  void wait(int index, int behind) {
    Action wait = actions_[index];
    wait.kind = ActionKind::send_wait;
    actions_[index].frees.clear();
    int end = index + 1;
    while (end < size() && actions_[end].is_transfer() && !is_from_elsewhere(end)) ++end;
    end = behind_computing(end, behind);
    if (wait.micro_batch < 0)
      while (end < size() && actions_[end].phase() == 0) ++end;
    waits_[end].push_back(std::move(wait));
  }

  /// Before the action that comes `ahead` computing ones before the place at `index`; `all_at_once`: and before all Recvs for that one. What
  /// many devices send at the end of a step is posted before the first of it is waited for.
  void post(int index, int ahead, bool all_at_once, const Action& send) {
    int begin = before_computing(index, ahead);
    while (all_at_once && begin > 0 && is_from_elsewhere(begin - 1)) --begin;
    while (send.micro_batch < 0 && begin > 0 && is_recv_of(send.transfer.payload, actions_[begin - 1])) --begin;
    const int stage = send.transfer.between_devices() ? -1 : send.transfer.to;
    posts_[begin].push_back({ActionKind::recv_post, stage, send.micro_batch, send.transfer, {}});
  }

  /// Waits go first: what they free may serve those that are posted.
  std::vector<Action> take() {
    std::vector<Action> all;
    for (int index = 0; index <= size(); ++index) {
      for (auto* inserted : {&waits_[index], &posts_[index]}) std::move(inserted->begin(), inserted->end(), std::back_inserter(all));
      if (index < size()) all.push_back(std::move(actions_[index]));
    }
    return all;
  }

 private:
  int size() const { return static_cast<int>(actions_.size()); }

  /// The place behind the so many computing actions from `begin` on, or the end where there are fewer. An open window passes a whole list, for
  /// each of its transfers.
  int behind_computing(int begin, int count) const {
    if (count == 0) return begin;
    const auto next = std::lower_bound(computing_.begin(), computing_.end(), begin);
    return computing_.end() - next < count ? size() : next[count - 1] + 1;
  }

  /// The place before the so many computing actions that stand before `end`, or the beginning where there are fewer.
  int before_computing(int end, int count) const {
    if (count == 0) return end;
    const auto next = std::lower_bound(computing_.begin(), computing_.end(), end);
    return next - computing_.begin() < count ? 0 : *(next - count);
  }

  /// A Recv that does not stand directly behind its own Send.
  bool is_from_elsewhere(int index) const {
    if (actions_[index].kind != ActionKind::recv) return false;
    return index == 0 || actions_[index - 1].kind != ActionKind::send || actions_[index - 1].transfer != actions_[index].transfer;
  }

  static bool is_recv_of(Payload payload, const Action& action) {
    return action.kind == ActionKind::recv && action.transfer.payload == payload;
  }

  std::vector<Action>& actions_;
  std::vector<int> computing_;                      // the indices of those that are no part of a transfer, ascending
  std::vector<std::vector<Action>> waits_, posts_;  // by the index before which they stand
};

}  // namespace

Program with_channel_actions(Program program, const TransferWindow& window) {
  const auto all_sent = VirtualRun(program).run();
  std::vector<Insertions> insertions;
  for (auto& actions : program.devices) insertions.emplace_back(actions);
  for (const auto& sent : all_sent) {
    const Action& send = insertions[sent.device].at(sent.index);
    const bool ahead = send.micro_batch >= 0 && window.ahead > 0;
    const int idle = sent.is_receiver_busy ? 0 : 1;  // it posts what it waits for
    const int passes = ahead ? window.ahead - idle : 0;
    insertions[sent.receiver].post(sent.receiver_at, passes, ahead && passes == 0, send);
    insertions[sent.device].wait(sent.index, window.behind);
  }
  for (int device = 0; device < program.device_count(); ++device) program.devices[device] = insertions[device].take();
  return program;
}

}  // namespace sluice::parallel
