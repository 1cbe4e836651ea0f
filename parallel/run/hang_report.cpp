#include "parallel/run/hang_report.h"

#include <algorithm>

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// The devices of a program at one moment, and who waits for whom.
class Standstill {
 public:
  Standstill(const Program& program, const Topology& topology, const std::vector<std::string>& names, const std::vector<size_t>& finished)
      : program_(program), topology_(topology), names_(names), finished_(finished) {}

  std::string text() const {
    std::string all;
    for (int device = 0; device < program_.device_count(); ++device) all += "\n  " + line(device);
    if (const auto cycle = find_cycle(); !cycle.empty()) return all + "\n  the waits form a cycle: " + describe_cycle(cycle);
    for (int device = 0; device < program_.device_count(); ++device)
      if (holds_up_others(device))
        all += "\n  " + name(device) + " holds up the others: it stands in " + describe(*current(device), topology_);
    return all;
  }

 private:
  enum class Message { none, ahead, sent, never };

  std::string name(int device) const { return join("device ", device, " (", names_[device], ")"); }

  /// The action that a device is in, or null when it has finished.
  const Action* current(int device) const {
    const auto& actions = program_.devices[device];
    return finished_[device] < actions.size() ? &actions[finished_[device]] : nullptr;
  }

  /// Of a Recv; -1 when the program names none.
  int sender(const Action& action) const {
    const int from = action.transfer.from;
    const int count = action.transfer.between_devices() ? program_.device_count() : static_cast<int>(program_.device_of_stage.size());
    if (from < 0 || from >= count) return -1;
    const int device = action.transfer.between_devices() ? from : program_.device_of_stage[from];
    return device < program_.device_count() ? device : -1;
  }

  /// What became of the message that a device's current action takes; none when it takes none.
  Message message(int device) const {
    const Action* action = current(device);
    if (!action || action->kind != ActionKind::recv) return Message::none;
    const int from = sender(*action);
    if (from < 0) return Message::never;
    const auto& actions = program_.devices[from];
    const auto send = std::ranges::find_if(actions, [&](const Action& other) {
      return other.kind == ActionKind::send && other.transfer == action->transfer && other.micro_batch == action->micro_batch;
    });
    if (send == actions.end()) return Message::never;
    return static_cast<size_t>(send - actions.begin()) < finished_[from] ? Message::sent : Message::ahead;
  }

  /// "activation 'a' of micro-batch 2 from stage 0 on device 0"
  std::string awaited(const Action& action) const {
    const std::string of = action.micro_batch < 0 ? "" : join(" of micro-batch ", action.micro_batch);
    const std::string stage = action.transfer.between_devices() ? "" : join("stage ", action.transfer.from, " on ");
    const int from = sender(action);
    return describe_payload(action.transfer, topology_) + of + " from " + stage + (from < 0 ? "no device" : name(from));
  }

  std::string line(int device) const {
    const Action* action = current(device);
    if (!action) return name(device) + " has finished";
    const size_t done = finished_[device];
    const std::string begin =
        join(name(device), " has finished ", done ? describe(program_.devices[device][done - 1], topology_) : "nothing", " and ");
    const std::string end = action->transfer.between_devices() ? "" : join(" for stage ", action->transfer.to);
    switch (message(device)) {
      case Message::none:
        return begin + "is in " + describe(*action, topology_);
      case Message::sent:
        return begin + "is in " + describe(*action, topology_) + ", whose message has been sent";
      case Message::ahead:
        return begin + "waits for " + awaited(*action) + end;
      case Message::never:
        return begin + "waits for " + awaited(*action) + end + ", which nobody sends";
    }
    return begin;
  }

  /// The device that a device waits for, or -1.
  int awaited_device(int device) const { return message(device) == Message::ahead ? sender(*current(device)) : -1; }

  /// From its lowest device on; empty when there is none.
  std::vector<int> find_cycle() const {
    for (int first = 0; first < program_.device_count(); ++first) {
      std::vector<int> path;
      for (int device = first; device >= 0; device = awaited_device(device)) {
        if (!path.empty() && device == first) return path;
        if (std::ranges::find(path, device) != path.end()) break;  // found from a device on the cycle
        path.push_back(device);
      }
    }
    return {};
  }

  std::string describe_cycle(const std::vector<int>& cycle) const {
    if (cycle.size() == 1) return name(cycle[0]) + " waits for " + awaited(*current(cycle[0])) + ", which it sends later in its own list";
    std::string all = name(cycle[0]);
    for (const int device : cycle) all += (device == cycle[0] ? " waits for " : ", which waits for ") + awaited(*current(device));
    return all;
  }

  bool holds_up_others(int device) const {
    if (!current(device) || message(device) == Message::ahead || message(device) == Message::never) return false;
    for (int other = 0; other < program_.device_count(); ++other)
      if (awaited_device(other) == device) return true;
    return false;
  }

  const Program& program_;
  const Topology& topology_;
  const std::vector<std::string>& names_;
  const std::vector<size_t>& finished_;
};

}  // namespace

std::string hang_report(const Program& program, const Topology& topology, const std::vector<std::string>& names,
                        const std::vector<size_t>& finished) {
  return Standstill(program, topology, names, finished).text();
}

}  // namespace sluice::parallel
