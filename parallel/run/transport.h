#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "parallel/program/program.h"

namespace sluice::parallel {

/// A tensor on its way between devices.
struct Message {
  Tensor tensor;
  Moment ready;             ///< of the sender: its elements are there
  double available_at = 0;  ///< on the Clock of devices that only count; else 0
};

/// What identifies a message: the two ends of a transfer name it alike.
struct MessageKey {
  Transfer transfer;
  int micro_batch = -1;
  auto operator<=>(const MessageKey&) const = default;
};

/// Carries tensors between the devices of one program. Sends are buffered and never wait; a receive waits.
/// Threads  any.
/// Errors   CommError after close(), with the reason given there; Error for a message whose key is still waiting to be received.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(int to_device, const MessageKey& key, Message message) = 0;
  /// Nothing when the message is not there within `seconds`; 0 only looks.
  virtual std::optional<Message> receive(int device, const MessageKey& key, double seconds) = 0;
  /// Wakes all who wait and makes every further call fail: another device failed.
  virtual void close(const std::string& reason) = 0;
};

/// Devices of one process: one mailbox a device. A receive spins before it sleeps, because a hand-over between two running threads takes
/// less than a wake-up: for two milliseconds where every device has a core, else for some microseconds.
std::unique_ptr<Transport> make_local_transport(int devices);

}  // namespace sluice::parallel
