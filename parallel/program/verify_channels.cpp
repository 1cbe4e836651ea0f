#include <map>
#include <utility>
#include <vector>

#include "parallel/program/replay.h"
#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

namespace {

struct Spot {
  int device = -1, index = -1;
};

/// Where the four actions of one transfer stand; of one within a device there are two.
struct Spots {
  Spot post, send, recv, wait;
};

class Channels {
 public:
  explicit Channels(const Trial& trial) : trial_(trial), messages_(trial.program), spots_(messages_.count()) {
    for (int device = 0; device < trial.program.device_count(); ++device)
      for (int index = 0; index < static_cast<int>(trial.program.devices[device].size()); ++index)
        if (messages_.of(device, index) >= 0) note({device, index});
  }

  std::optional<Violation> check() const {
    for (const Spots& spots : spots_) {
      if (spots.post.index < 0) continue;
      if (spots.recv.index < spots.post.index) return fault(spots.recv, spots.post, ": a receive is posted before it is waited for");
      if (spots.wait.index < spots.send.index) return fault(spots.wait, spots.send, ": a transfer begins before its end is waited for");
    }
    for (const auto& [ends, sends] : sends_)
      if (auto found = check_mirror(sends, posts_.at(ends))) return found;
    return {};
  }

 private:
  void note(Spot spot) {
    const Action& action = at(spot);
    Spots& spots = spots_[messages_.of(spot.device, spot.index)];
    const std::pair ends{trial_.program.sender(action.transfer), trial_.program.receiver(action.transfer)};
    const bool is_between = ends.first != ends.second;
    switch (action.kind) {
      case ActionKind::recv_post:
        spots.post = spot;
        posts_[ends].push_back(spot);
        break;
      case ActionKind::send:
        spots.send = spot;
        if (is_between) sends_[ends].push_back(spot);
        break;
      case ActionKind::recv:
        spots.recv = spot;
        break;
      default:
        spots.wait = spot;
    }
  }

  const Action& at(Spot spot) const { return trial_.program.devices[spot.device][spot.index]; }

  std::optional<Violation> fault(Spot spot, Spot other, std::string_view rule) const {
    return trial_.violation(spot.device, spot.index, "comes before ", describe(at(other), trial_.topology), rule);
  }

  std::optional<Violation> check_mirror(const std::vector<Spot>& sends, const std::vector<Spot>& posts) const {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (messages_.of(sends[i].device, sends[i].index) == messages_.of(posts[i].device, posts[i].index)) continue;
      return trial_.violation(posts[i].device, posts[i].index, "is number ", i, " of its channel, and number ", i, " on device ",
                              sends[i].device, " is ", describe(at(sends[i]), trial_.topology),
                              ": receives are posted in the order of the sends, or transfers meet what was not meant for them");
    }
    return {};
  }

  const Trial& trial_;
  const Messages messages_;
  std::vector<Spots> spots_;                                        // by message
  std::map<std::pair<int, int>, std::vector<Spot>> sends_, posts_;  // by sending and receiving device
};

}  // namespace

std::optional<Violation> check_channels(const Trial& trial) { return Channels(trial).check(); }

std::optional<Violation> check_progress(const Trial& trial) {
  const Program& program = trial.program;
  const std::vector<int> position = replay(program, Messages(program), [](int, int) {});
  for (int device = 0; device < program.device_count(); ++device) {
    if (position[device] == static_cast<int>(program.devices[device].size())) continue;
    const Action& waiting = program.devices[device][position[device]];
    const bool receives = waiting.kind == ActionKind::recv;
    const int other = receives ? program.sender(waiting.transfer) : program.receiver(waiting.transfer);
    return trial.violation(
        device, position[device], "waits for ever: device ", other, receives ? ", which sends it" : ", which receives it", ", stands in ",
        describe(program.devices[other][position[other]], trial.topology), " before it comes to that ", receives ? "Send" : "RecvPost");
  }
  return {};
}

}  // namespace sluice::parallel
