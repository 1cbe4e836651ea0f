#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/queue.h"

struct ncclComm;

namespace sluice::emulation {

struct Clique;
struct Runtime;
struct GroupLaunch;

/// One send or receive.
struct Operation {
  bool is_send = false;
  int peer = -1;
  char* memory = nullptr;
  size_t bytes = 0;
  size_t moved = 0;  ///< into the FIFO, or out of it
};

/// From one rank to another.
struct Connection {
  /// How many operations with the other end its group has.
  struct Grouping {
    int sends = 0, receives = 0;
    Grouping mirrored() const { return {receives, sends}; }
    bool operator==(const Grouping&) const = default;
  };
  struct End {
    bool has_come = false;  ///< its first operation
    std::deque<std::pair<std::shared_ptr<GroupLaunch>, size_t>> running;
  };
  struct Message {
    size_t bytes = 0, taken = 0;
    Grouping grouping;
  };
  End sender, receiver;
  std::deque<char> fifo;
  std::deque<Message> messages;  ///< that were begun to be sent and are not received

  /// Moves what can be moved.
  void advance(Runtime& state);

 private:
  size_t fill();
  size_t drain();
};

/// The operations of one communicator in a group, which are one kernel.
struct GroupLaunch {
  ncclComm* communicator = nullptr;
  std::vector<Operation> operations;
  std::shared_ptr<Queue> queue;
  uint64_t position = 0;  ///< in the queue
  bool is_begun = false;

  bool is_done() const;
  Connection::Grouping grouping_with(int peer) const;
};

/// The ranks of a communicator.
struct Clique {
  std::vector<ncclComm*> members;                         ///< by rank; null for one that has left
  std::vector<int> devices;                               ///< of the ranks that have come
  std::map<std::pair<int, int>, Connection> connections;  ///< by sender and receiver
};

}  // namespace sluice::emulation

/// One rank.
struct ncclComm {
  std::shared_ptr<sluice::emulation::Clique> clique;
  int rank = -1;
  int device = -1;
  std::deque<std::shared_ptr<sluice::emulation::GroupLaunch>> launches;  ///< that have not ended, in order

  sluice::emulation::Connection& connection(const sluice::emulation::Operation& operation) const;
};

namespace sluice::emulation {

/// Runs a launch of the queue that is being run. Errors  Blocked until it has ended.
void run_launch(Runtime& state, const std::shared_ptr<GroupLaunch>& launch);

}  // namespace sluice::emulation
