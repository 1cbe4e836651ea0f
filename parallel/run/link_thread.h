#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/group/deadline.h"
#include "parallel/group/group.h"
#include "parallel/run/gpu_link.h"

namespace sluice::parallel {

/// One end of a transfer between GPUs of two ranks.
struct LinkTransfer {
  static constexpr int64_t kLeftOut = -1;  ///< in place of bytes: there is no tensor

  ChannelEnds ends;
  std::string name;  ///< for messages
  int other = -1;    ///< rank of the other end
  bool is_send = false;
  GpuLink* link = nullptr;
  Tensor tensor;  ///< what is sent, or the room
  Event ready;    ///< from when on it may be read, or written
  /// @name What the two ends tell each other: bytes that come, bytes of room
  /// @{
  int64_t told = 0, heard = 0;
  RequestPtr telling, hearing;
  /// @}
  /// @name Under the mutex of the LinkThread
  /// @{
  bool is_begun = false;
  GpuLink::HasEnded has_ended;  ///< once it is begun; null when nothing moves
  /// @}

  bool moves() const { return (is_send ? told : heard) > 0; }
};
using LinkTransferPtr = std::shared_ptr<LinkTransfer>;

/// The thread that begins transfers: each when both ends have told, and in the order of its channel.
/// Threads  any.
class LinkThread {
 public:
  explicit LinkThread(Group& group);
  /// Waits for the thread, unless that is held up in a call, for which there is no end.
  ~LinkThread();
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  /// Puts it behind those of its channel and direction.
  void add(LinkTransferPtr transfer);
  /// Until the transfer has begun, `deadline` or close(). Whether it has begun. Errors  what went wrong on the thread.
  bool wait_for_begin(const LinkTransfer& transfer, SteadyClock::time_point deadline);
  /// Throws the reason when it is closed, and what went wrong on the thread.
  void check() const;
  void close(const std::string& reason);

 private:
  using ChannelEnd = std::pair<ChannelEnds, bool>;  // is_send
  /// Shared with the thread, which may live longer.
  struct State {
    explicit State(Group& in) : group(in) {}
    Group& group;
    mutable std::mutex mutex;  ///< guards all that follows
    std::condition_variable changed;
    std::map<ChannelEnd, std::deque<LinkTransferPtr>> waiting;  ///< that have not begun
    std::set<GpuLink*> links;                                   ///< that were used
    bool is_stopping = false, has_stopped = false;
    std::optional<std::string> closed;  ///< the reason
    std::exception_ptr error;
    void check() const;
  };
  static void run(State& state);
  static void work(State& state);
  static bool begin_some(State& state);
  static std::vector<LinkTransferPtr> next_ones(State& state);
  static void begin(State& state, const LinkTransferPtr& transfer);
  static void check_others(State& state);

  const std::shared_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace sluice::parallel
