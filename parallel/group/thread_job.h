#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/group/failure.h"
#include "parallel/group/group.h"

namespace sluice::parallel {

/// What the ranks of thread groups share. The calls are those of Group, with the rank that makes them first.
/// Threads  any.
class ThreadJob {
 public:
  explicit ThreadJob(int ranks);

  int size() const { return static_cast<int>(members_.size()); }
  RequestPtr send(int from, int to, int channel, std::span<const std::byte> bytes, uint8_t label);
  RequestPtr receive(int to, int from, int channel, std::span<std::byte> room, uint8_t label);
  bool wait(int rank, const Request& request, double seconds);
  void tell(int from, int to, std::string message);
  std::string hear(int to, int from, double seconds);
  void abort(int rank, const std::string& reason);
  Failure& failure_of(int rank) { return members_[rank]->failure; }
  void set_status(int rank, std::function<std::string()> status);
  std::string status_of(int rank);
  void close(int rank, double seconds);
  /// Gives up what the rank still has under way: nobody touches its memory after this.
  void leave(int rank);
  /// The rank that failed first; -1 while none has.
  int failed_rank() const;

 private:
  struct Send {
    RequestPtr request;
    std::span<const std::byte> bytes;
    uint8_t label;
  };
  struct Receive {
    RequestPtr request;
    std::span<std::byte> room;
    uint8_t label;
  };
  struct Channel {
    std::deque<Send> sends;
    std::deque<Receive> receives;
  };
  using ChannelName = std::tuple<int, int, int>;  // from, to, channel
  struct Member {
    Failure failure;
    std::mutex status_mutex;  // held during a call
    std::function<std::string()> status;
    std::map<int, std::deque<std::string>> inbox;  // by sender
    int under_way = 0;                             // requests
    bool is_closed = false;
  };

  void hand_over(const ChannelName& name, Channel& channel);
  /// Until `is_over` or a failure or the deadline; whether it is over.
  template <class IsOver>
  bool wait_until(int rank, double seconds, std::unique_lock<std::mutex>& lock, const IsOver& is_over);

  mutable std::mutex mutex_;  // of all below but the failures, statuses
  std::condition_variable changed_;
  std::map<ChannelName, Channel> channels_;
  std::vector<std::unique_ptr<Member>> members_;
  int failed_rank_ = -1;
};

}  // namespace sluice::parallel
