#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <type_traits>
#include <unordered_map>

#include "core/wait_before_free.h"
#include "parallel/group/deadline.h"
#include "parallel/run/transport.h"

namespace sluice::parallel {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// How long a wait looks before it sleeps. A core that slept wakes late and works slowly at first, so devices with a
/// core each wait awake for about an action's time; devices that share cores leave them to each other.
SteadyClock::duration spin_of(int devices) {
  const bool has_cores = devices <= static_cast<int>(std::thread::hardware_concurrency());
  return has_cores ? std::chrono::microseconds(2000) : std::chrono::microseconds(20);
}

/// One channel. Whichever end comes second to a transfer hands it over, so that neither waits for the other's thread.
class LocalChannel {
 public:
  LocalChannel(const ChannelEnds& ends, SteadyClock::duration spin, Clock* clock) : ends_(ends), spin_(spin), clock_(clock) {}
  /// Copies that began may outlive a failure; their memory must not be freed before they end.
  ~LocalChannel() {
    for (const auto& [key, delivery] : deliveries_) {
      if (!delivery.is_done) continue;
      wait_before_free(delivery.arrived.ready.event);
      wait_before_free(delivery.may_free.event);  // the same, where the receiver has taken the other
    }
  }
  LocalChannel(const LocalChannel&) = delete;
  LocalChannel& operator=(const LocalChannel&) = delete;

  void send(const MessageKey& key, Message message) {
    change([&] {
      Delivery& delivery = deliveries_[key];
      require<Error>(!delivery.is_sent, "transport: needs one message of each transfer and micro-batch, got a second one of ", key,
                     "; this is a fault of Sluice, report it");
      delivery.is_sent = true;
      delivery.sent = std::move(message);
      sends_.push_back(key);
    });
  }

  void post(const MessageKey& key, Place place) {
    change([&] {
      Delivery& delivery = deliveries_[key];
      require<Error>(!delivery.is_posted, "transport: needs one receive of each transfer and micro-batch, got a second one of ", key,
                     "; this is a fault of Sluice, report it");
      delivery.is_posted = true;
      delivery.place = std::move(place);
      posts_.push_back(key);
    });
  }

  std::optional<Message> receive(const MessageKey& key, double seconds) {
    return at_end_of(key, seconds, [](Delivery& delivery) {
      delivery.place = {};
      delivery.is_received = true;
      return std::move(delivery.arrived);
    });
  }

  std::optional<When> finish_send(const MessageKey& key, double seconds) {
    return at_end_of(key, seconds, [](Delivery& delivery) {
      delivery.sent = {};
      delivery.is_finished = true;
      return std::move(delivery.may_free);
    });
  }

  void close(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
      reason_ = reason;
    }
    wake();
  }

 private:
  struct Delivery {
    Message sent, arrived;
    Place place;
    When may_free;
    bool is_sent = false, is_posted = false, is_done = false, is_received = false, is_finished = false;
  };

  template <class Change>
  void change(const Change& apply) {
    {
      std::lock_guard lock(mutex_);
      check_open();
      apply();
      hand_over();
    }
    wake();
  }

  void hand_over() {
    while (!sends_.empty() && !posts_.empty()) {
      require<Error>(sends_.front() == posts_.front(), "transport: needs one order at both ends of a channel, got ", sends_.front(),
                     " sent where ", posts_.front(), " is received; this is a fault of Sluice, report it");
      hand_over(deliveries_.at(sends_.front()));
      sends_.pop_front();
      posts_.pop_front();
    }
  }

  /// The room of an undefined message stays until the receiver comes for it, so that counts do not depend on when that is sent.
  void hand_over(Delivery& delivery) {
    const Tensor& tensor = delivery.sent.tensor;
    delivery.arrived = delivery.sent;
    if (tensor.defined()) {
      Tensor& room = delivery.place.room;
      if (!room.defined() || room.shape() != tensor.shape() || room.dtype() != tensor.dtype()) {
        room = Tensor();
        room = room_for(tensor.shape(), tensor.dtype(), delivery.place.device, tensor.device());
      }
      std::tie(delivery.arrived.tensor, delivery.arrived.ready.event) =
          tensor.handed_to(room, delivery.sent.ready.event, delivery.place.free.event);
    }
    delivery.may_free.event = delivery.arrived.ready.event;
    if (clock_) {
      const double earliest = std::max(delivery.sent.ready.seconds, delivery.place.free.seconds);
      const auto [sent, arrived] =
          clock_->transfer(ends_.from, ends_.to, earliest, static_cast<double>(delivery.sent.wire_bytes), delivery.sent.sharing);
      delivery.may_free.seconds = sent;
      delivery.arrived.ready.seconds = arrived;
    }
    delivery.is_done = true;
  }

  /// What `take` gives when the transfer has ended; nothing when it does not in time. Both ends take once.
  template <class Take>
  std::optional<std::invoke_result_t<Take, Delivery&>> at_end_of(const MessageKey& key, double seconds, const Take& take) {
    std::optional<std::invoke_result_t<Take, Delivery&>> taken;
    wait(seconds, [&] {
      const auto found = deliveries_.find(key);
      if (found == deliveries_.end() || !found->second.is_done) return false;
      taken = take(found->second);
      if (found->second.is_received && found->second.is_finished) deliveries_.erase(found);
      return true;
    });
    return taken;
  }

  void wake() {
    changes_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }

  /// Until `take`, which is called under the lock, returns true.
  template <class Take>
  void wait(double seconds, const Take& take) {
    const auto start = SteadyClock::now();
    bool spins = true;
    while (spins) {
      const int seen = changes_.load(std::memory_order_acquire);
      {
        std::lock_guard lock(mutex_);
        check_open();
        if (take() || seconds <= 0) return;
      }
      while ((spins = SteadyClock::now() < start + spin_) && changes_.load(std::memory_order_acquire) == seen) __builtin_ia32_pause();
    }
    std::unique_lock lock(mutex_);
    bool taken = false;
    changed_.wait_until(lock, start + duration_of(seconds), [&] { return closed_ || (taken = taken || take()); });
    if (!taken) check_open();
  }

  void check_open() const {
    if (closed_) throw CommError(reason_);
  }

  const ChannelEnds ends_;
  const SteadyClock::duration spin_;
  Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> changes_{0};
  std::map<MessageKey, Delivery> deliveries_;
  std::deque<MessageKey> sends_, posts_;  // of transfers that have not run
  bool closed_ = false;
  std::string reason_;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(int devices, Clock* clock) : spin_(spin_of(devices)), clock_(clock) {}

  void send(const ChannelEnds& ends, const MessageKey& key, Message message) override { channel(ends).send(key, std::move(message)); }
  void post(const ChannelEnds& ends, const MessageKey& key, Place place) override { channel(ends).post(key, std::move(place)); }
  std::optional<Message> receive(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    return channel(ends).receive(key, seconds);
  }
  std::optional<When> finish_send(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    return channel(ends).finish_send(key, seconds);
  }
  void close(const std::string& reason) override {
    std::lock_guard lock(mutex_);
    if (!closed_) closed_ = reason;
    for (auto& [ends, channel] : channels_) channel.close(reason);
  }

 private:
  LocalChannel& channel(const ChannelEnds& ends) {
    std::lock_guard lock(mutex_);
    if (closed_) throw CommError(*closed_);
    return channels_.try_emplace(ends, ends, spin_, clock_).first->second;
  }

  const SteadyClock::duration spin_;
  Clock* const clock_;
  std::mutex mutex_;
  struct HashOfEnds {
    size_t operator()(const ChannelEnds& ends) const { return hash_numbers({ends.from, ends.to}); }
  };
  std::unordered_map<ChannelEnds, LocalChannel, HashOfEnds> channels_;  // which do not move
  std::optional<std::string> closed_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(int devices, Clock* clock) { return std::make_unique<LocalTransport>(devices, clock); }

}  // namespace sluice::parallel
