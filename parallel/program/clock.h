#pragma once
#include <unordered_map>
#include <vector>

#include "parallel/program/links.h"

namespace sluice::parallel {

/// The time of a group of devices: what meta devices, `simulate`, list scheduling and the search for plans run on. It starts at 0.
///
/// A device does one thing at a time. A channel is one direction between two devices; it carries one transfer at a time, in the order of
/// the calls, while both devices compute. A transfer occupies its channel for the seconds on the wire; the latency comes on top, and the next
/// transfer may follow during it. Within a device a transfer takes no time. Where a device's link is shared with other channels, each gets
/// its part of it all the time (LinkSharing).
/// Units    seconds and bytes.
/// Threads  one.
class Clock {
 public:
  /// Errors  UsageError without devices, and for links of some devices only.
  Clock(int devices, Links links);

  double now(int device) const { return devices_[device].now; }
  double busy(int device) const { return devices_[device].busy; }  ///< seconds of computation
  int device_count() const { return static_cast<int>(devices_.size()); }
  const Links& links() const { return links_; }

  void compute(int device, double seconds);
  /// Idles, unless it is later already.
  void wait(int device, double until);
  struct Transferred {
    double sent;     ///< the sender may write its buffer, and the channel is free
    double arrived;  ///< after the latency
  };
  /// A transfer begins when its channel is free, and not before `earliest`: when it was sent, or when its receive was posted, whichever is
  /// later.
  /// `sharing`: over how many channels the link is shared meanwhile.
  Transferred transfer(int from, int to, double earliest, double bytes, int sharing = 1);

  double seconds() const;  ///< of the device that is latest
  double bubble() const;   ///< 1 - mean busy seconds of a device / seconds(); 0 when nothing ran

 private:
  struct Channel {
    Link link;
    double free_at = 0;
  };
  struct DeviceTime {
    double now = 0, busy = 0;
    std::unordered_map<int, Channel> channels;  ///< by the device that it has sent to
  };
  Channel& channel(int from, int to);

  std::vector<DeviceTime> devices_;
  Links links_;
};

}  // namespace sluice::parallel
