#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/tensor.h"
#include "parallel/program/clock.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

/// What identifies a message: all actions of a transfer name it alike.
struct MessageKey {
  Transfer transfer;
  int micro_batch = -1;
  auto operator<=>(const MessageKey&) const = default;
};

/// For messages of errors, which are built on failure only: every message of a step goes by such a check.
std::ostream& operator<<(std::ostream& out, const MessageKey& key);
/// What ranks label a message with, so that ends of a channel whose orders differ hang, which is reported, and nobody computes with another
/// value. `run`  the number of the run: ranks that are in different ones hang, too.
uint8_t label_of(const MessageKey& key, uint8_t run);

/// The list of transfers from one device to another.
struct ChannelEnds {
  int from, to;  ///< devices
  auto operator<=>(const ChannelEnds&) const = default;
};

/// When something is so: in the order of a device's work, or on the Clock of devices that only count.
struct When {
  Event event;
  double seconds = 0;
};

/// Where a message goes to, and from when on.
struct Place {
  DevicePtr device;
  Tensor room;  ///< made by `room_for`; undefined when nobody knows the shape before the message comes
  When free;    ///< of the receiver: the room may be written
};

/// Other ranks write into a room: it is made before they do. Errors  UsageError naming the message where its shape was not known.
void require_room(const Place& place, const MessageKey& key);

/// A tensor on its way, or at its end; undefined for a gradient that a module left out.
struct Message {
  Tensor tensor;
  When ready;              ///< its elements are there
  int64_t wire_bytes = 0;  ///< for the Clock
  int sharing = 1;         ///< the same (LinkSharing)
};

/// Carries tensors between the devices of one program. A transfer runs when it was sent and posted and all that its channel has to send
/// before are done. `send` and `post` never wait; the two others wait for the end of the transfer, `seconds` at most; 0 only looks. Nothing
/// is buffered but handles: what is sent is charged to the sender until `finish_send`, the room to the receiver from `post` on.
/// Threads  any; one at each end of a channel.
/// Errors   CommError after close(), with the reason given there; Error when the two ends of a channel differ in their order, or for a
///          message that is under way already; OutOfMemory of a receiver that got a message of unknown shape.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(const ChannelEnds& ends, const MessageKey& key, Message message) = 0;
  virtual void post(const ChannelEnds& ends, const MessageKey& key, Place place) = 0;
  /// The message in its place. Nothing when the transfer does not end within `seconds`.
  virtual std::optional<Message> receive(const ChannelEnds& ends, const MessageKey& key, double seconds) = 0;
  /// Gives up what was sent. Returns when the sender may write it; nothing when the transfer does not end in time.
  virtual std::optional<When> finish_send(const ChannelEnds& ends, const MessageKey& key, double seconds) = 0;
  /// Wakes all who wait and makes every further call fail: another device failed.
  virtual void close(const std::string& reason) = 0;
  /// What has come from devices of other ranks.
  virtual int64_t bytes_from_ranks() const { return 0; }
};

/// Devices of one process. A wait spins before it sleeps, because a hand-over between two running threads takes less than a wake-up: for
/// two milliseconds where every device has a core, else for some microseconds.
/// `clock`  of devices that only count, on which transfers take their time; else null.
std::unique_ptr<Transport> make_local_transport(int devices, Clock* clock = nullptr);

}  // namespace sluice::parallel
