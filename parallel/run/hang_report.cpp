#include "parallel/run/hang_report.h"

#include <algorithm>

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// The devices of a program at one moment, and who waits for whom.
class Standstill {
 public:
  Standstill(const Program& program, const Topology& topology, const std::vector<std::string>& names,
             const std::vector<std::optional<size_t>>& finished)
      : program_(program), topology_(topology), names_(names), finished_(finished) {}

  std::string text() const {
    std::string all, unknown;
    for (int device = 0; device < program_.device_count(); ++device)
      if (finished_[device])
        all += "\n  " + line(device);
      else
        unknown += (unknown.empty() ? "" : ", ") + name(device);
    if (!unknown.empty()) all += "\n  of other ranks, which have not said here where they are: " + unknown;
    if (const auto cycle = find_cycle(); !cycle.empty()) return all + "\n  the waits form a cycle: " + describe_cycle(cycle);
    for (int device = 0; device < program_.device_count(); ++device)
      if (holds_up_others(device))
        all += "\n  " + name(device) + " holds up the others: it stands in " + describe(*current(device), topology_);
    return all;
  }

 private:
  /// Where the other device is with what a device waits for.
  enum class Wait { none, ahead, done, never };

  std::string name(int device) const { return join("device ", device, " (", names_[device], ")"); }

  /// The action that a device is in, or null when it has finished, or is where nobody knows.
  const Action* current(int device) const {
    const auto& actions = program_.devices[device];
    return finished_[device] && *finished_[device] < actions.size() ? &actions[*finished_[device]] : nullptr;
  }

  /// The device at the other end of a Recv or SendWait; -1 when the program names none.
  int other_end(const Action& action) const {
    const int end = action.kind == ActionKind::recv ? action.transfer.from : action.transfer.to;
    const int count = action.transfer.between_devices() ? program_.device_count() : static_cast<int>(program_.device_of_stage.size());
    if (end < 0 || end >= count) return -1;
    const int device = action.transfer.between_devices() ? end : program_.device_of_stage[end];
    return device < program_.device_count() ? device : -1;
  }

  /// A Recv waits for its Send and a SendWait for its RecvPost; what else a transfer needs comes earlier in the same lists.
  Wait wait(int device) const {
    const Action* action = current(device);
    if (!action || (action->kind != ActionKind::recv && action->kind != ActionKind::send_wait)) return Wait::none;
    const int other = other_end(*action);
    if (other < 0) return Wait::never;
    const ActionKind wanted = action->kind == ActionKind::recv ? ActionKind::send : ActionKind::recv_post;
    const auto& actions = program_.devices[other];
    const auto found = std::ranges::find_if(actions, [&](const Action& candidate) {
      return candidate.kind == wanted && candidate.transfer == action->transfer && candidate.micro_batch == action->micro_batch;
    });
    if (found == actions.end()) return Wait::never;
    return finished_[other] && static_cast<size_t>(found - actions.begin()) < *finished_[other] ? Wait::done : Wait::ahead;
  }

  /// "activation 'a' of micro-batch 2 from stage 0 on device 0", "the receive of activation 'a' of micro-batch 2 by stage 1 on device 1"
  std::string awaited(const Action& action) const {
    const bool receives = action.kind == ActionKind::recv;
    const std::string of = action.micro_batch < 0 ? "" : join(" of micro-batch ", action.micro_batch);
    const int end = receives ? action.transfer.from : action.transfer.to, other = other_end(action);
    const std::string stage = action.transfer.between_devices() ? "" : join("stage ", end, " on ");
    return (receives ? "" : "the receive of ") + describe_payload(action.transfer, topology_) + of + (receives ? " from " : " by ") +
           stage + (other < 0 ? "no device" : name(other));
  }

  std::string line(int device) const {
    const Action* action = current(device);
    if (!action) return name(device) + " has finished";
    const size_t done = *finished_[device];
    const std::string begin =
        join(name(device), " has finished ", done ? describe(program_.devices[device][done - 1], topology_) : "nothing", " and ");
    const bool receives = action->kind == ActionKind::recv;
    const std::string end = action->transfer.between_devices()
                                ? ""
                                : join(receives ? " for stage " : " from stage ", receives ? action->transfer.to : action->transfer.from);
    switch (wait(device)) {
      case Wait::none:
        return begin + "is in " + describe(*action, topology_);
      case Wait::done:
        return begin + "is in " + describe(*action, topology_) + (receives ? ", whose message has been sent" : ", which has been posted");
      case Wait::ahead:
        return begin + "waits for " + awaited(*action) + end;
      case Wait::never:
        return begin + "waits for " + awaited(*action) + end + (receives ? ", which nobody sends" : ", which nobody posts");
    }
    return begin;
  }

  /// The device that a device waits for, or -1.
  int awaited_device(int device) const { return wait(device) == Wait::ahead ? other_end(*current(device)) : -1; }

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
    const bool receives = current(cycle[0])->kind == ActionKind::recv;
    if (cycle.size() == 1)
      return name(cycle[0]) + " waits for " + awaited(*current(cycle[0])) +
             (receives ? ", which it sends later in its own list" : ", which it posts later in its own list");
    std::string all = name(cycle[0]);
    for (const int device : cycle) all += (device == cycle[0] ? " waits for " : ", which waits for ") + awaited(*current(device));
    return all;
  }

  bool holds_up_others(int device) const {
    if (!current(device) || wait(device) == Wait::ahead || wait(device) == Wait::never) return false;
    for (int other = 0; other < program_.device_count(); ++other)
      if (awaited_device(other) == device) return true;
    return false;
  }

  const Program& program_;
  const Topology& topology_;
  const std::vector<std::string>& names_;
  const std::vector<std::optional<size_t>>& finished_;
};

}  // namespace

std::string hang_report(const Program& program, const Topology& topology, const std::vector<std::string>& names,
                        const std::vector<std::optional<size_t>>& finished) {
  return Standstill(program, topology, names, finished).text();
}

}  // namespace sluice::parallel
