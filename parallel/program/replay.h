#pragma once
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// Numbers the messages of a program: the actions of one transfer and micro-batch have one number.
class Messages {
 public:
  explicit Messages(const Program& program);

  int count() const { return static_cast<int>(numbers_.size()); }
  /// Of the action at `index` of a device's list; -1 for what is no part of a transfer.
  int of(int device, int index) const { return of_action_[device][index]; }

 private:
  using Key = std::pair<Transfer, int>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, int, Hash> numbers_;
  std::vector<std::vector<int>> of_action_;  // by device and index
};

/// What has become of each message while a program runs under the strict rule, which every transport keeps to: a transfer runs when its Send
/// and its RecvPost have run and all that its channel has to send before are done; Recv and SendWait wait for it. A channel is the list of
/// transfers from one device to another, in the order of their Sends. Within a device a message is there once it is sent.
class Deliveries {
 public:
  Deliveries(const Program& program, const Messages& messages);

  bool may_run(int device, int index) const;
  void run(int device, int index);

 private:
  struct Delivery {
    int channel = -1;  ///< -1 within a device
    bool is_sent = false, is_posted = false, is_done = false;
  };
  struct Channel {
    std::vector<int> messages;
    std::size_t done = 0;
  };
  void advance(Delivery& delivery);

  const Program& program_;
  const Messages& messages_;
  std::vector<Delivery> deliveries_;  // by message
  std::vector<Channel> channels_;
};

/// Runs all devices' lists as far as they go under the strict rule, and calls `visit(device, index)` for each action that runs: in list order
/// on each device, and every Recv and SendWait after its Send and its RecvPost.
/// Returns how far each device came; one that is not at its end waits for ever in the Recv or SendWait at that position.
template <class Visit>
std::vector<int> replay(const Program& program, const Messages& messages, Visit visit) {
  Deliveries deliveries(program, messages);
  std::vector<int> position(program.devices.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int device = 0; device < program.device_count(); ++device) {
      const auto& actions = program.devices[device];
      for (int& index = position[device]; index < static_cast<int>(actions.size()); ++index, moved = true) {
        if (!deliveries.may_run(device, index)) break;
        deliveries.run(device, index);
        visit(device, index);
      }
    }
  }
  return position;
}

}  // namespace sluice::parallel
