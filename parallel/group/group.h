#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace sluice::parallel {

/// A send or a receive that has begun. Its memory belongs to it until it is done; after a failure, where nothing more is done, until the
/// group is gone, because another process may still read or write it.
/// Threads  any.
struct Request {
  std::atomic<bool> is_done = false;
  size_t bytes = 0;   ///< how many came, once it is done: a receive's room may be larger
  std::string error;  ///< of a receive that is done: why it is not what was sent; else empty
};
using RequestPtr = std::shared_ptr<Request>;

/// What the others last heard of a rank.
struct Heartbeat {
  std::string status;      ///< what its set_status() gave
  double age_seconds = 0;  ///< since it was sent
};

/// The processes ("ranks") of one job: one; those that an MPI launcher started; or threads of one program, for tests. It carries control
/// messages of any size, the bytes of tensors, and the word that a rank has failed.
///
/// A rank sends to others only. Every wait ends: with what it waits for, at its deadline, or with CommError as soon as a rank is known to
/// have failed.
/// Threads  any, unless said otherwise.
/// Errors   UsageError for a rank or a channel that is not there.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool is_root() const { return rank() == 0; }

  /// @name Bytes of tensors. Of each (from, to, channel) the first receive gets the first send, and so on; none waits for another channel.
  /// @{
  /// The number of channels from one rank to another.
  virtual int channel_count() const = 0;
  /// Begins, and never waits. The memory may be written, or freed, when the request is done. `label`  what the message is: where the two ends
  /// name another one the receive gets nothing, so that it waits for ever and nobody reads what is not his.
  virtual RequestPtr send(int to, int channel, std::span<const std::byte> bytes, uint8_t label = 0) = 0;
  /// Errors  CommError out of wait() when more bytes come than the room holds; the channel is of no use after that.
  virtual RequestPtr receive(int from, int channel, std::span<std::byte> room, uint8_t label = 0) = 0;
  /// Whether the request is done within `seconds`; 0 only looks. Both ends have to call it from time to time, or wait for anything else.
  virtual bool wait(const Request& request, double seconds) = 0;
  /// @}

  /// @name Control messages, in their order from each rank
  /// @{
  /// Never waits; the message is copied.
  virtual void tell(int to, std::string message) = 0;
  /// The next message of that rank. Threads  one for each rank that it hears.
  /// Errors  CommError naming the rank when none comes within `seconds`.
  virtual std::string hear(int from, double seconds) = 0;
  /// @}

  /// @name Failures
  /// @{
  /// Tells all other ranks, in half a second at most, that this one fails: their waits end with CommError. So do this one's.
  virtual void abort(const std::string& reason) = 0;
  /// Which rank failed first, as far as this one knows, and why: what CommErrors say. Empty while none has.
  virtual std::string failure() const = 0;
  /// Called once, on another thread, when it becomes known that another rank has failed or has not been heard of for the watchdog's time;
  /// by this call where that is known already. An empty hook takes it back, and waits for a call that is under way;
  /// the hook itself may not call this.
  virtual void on_failure(std::function<void(const std::string& failure)> hook) = 0;
  /// What goes out with this rank's heartbeat, once a second; called on another thread. An empty function takes it back, as above.
  virtual void set_status(std::function<std::string()> status) = 0;
  /// By rank, the last heartbeats that came here; nothing of a rank that was never heard of, nor of this one. The root
  /// hears all, the others hear the root.
  virtual std::vector<std::optional<Heartbeat>> heartbeats() const = 0;
  /// After so many seconds without a heartbeat of a rank it has failed. 0: never.
  virtual void set_watchdog(double seconds) = 0;
  /// @}

  /// Ends the rank's part in the job when all others do, too. No call follows.
  /// Errors  CommError when another rank does not within `seconds`.
  virtual void close(double seconds) = 0;
};

/// How many channels a group has at most.
inline constexpr int kMaxChannels = 1024;

/// A group of one.
std::unique_ptr<Group> make_single_group();

}  // namespace sluice::parallel
