#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "parallel/run/transport.h"

namespace sluice::parallel {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// How long a receive looks for its message before it sleeps. A core that slept wakes late and works slowly at first, so devices with a
/// core each wait awake for about an action's time; devices that share cores leave them to each other.
SteadyClock::duration spin_of(int devices) {
  const bool has_cores = devices <= static_cast<int>(std::thread::hardware_concurrency());
  return has_cores ? std::chrono::microseconds(2000) : std::chrono::microseconds(20);
}

class Mailbox {
 public:
  explicit Mailbox(SteadyClock::duration spin) : spin_(spin) {}

  void put(const MessageKey& key, Message message) {
    {
      std::lock_guard lock(mutex_);
      check_open();
      const bool is_new = messages_.emplace(key, std::move(message)).second;
      require<Error>(is_new, "transport: needs one message of each transfer and micro-batch, got a second one of value ",
                     key.transfer.value, " from ", key.transfer.from, " to ", key.transfer.to, ", micro-batch ", key.micro_batch,
                     "; this is a fault of Sluice, report it");
    }
    arrivals_.fetch_add(1, std::memory_order_release);
    arrived_.notify_all();
  }

  std::optional<Message> take(const MessageKey& key, double seconds) {
    if (seconds <= 0) return look(key);
    const auto start = SteadyClock::now();
    do {
      const int seen = arrivals_.load(std::memory_order_acquire);
      if (auto message = look(key)) return message;
      while (arrivals_.load(std::memory_order_acquire) == seen && SteadyClock::now() < start + spin_) __builtin_ia32_pause();
    } while (SteadyClock::now() < start + spin_);
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, start + std::chrono::duration<double>(seconds), [&] { return closed_ || messages_.contains(key); });
    return extract(key);
  }

  void close(const std::string& reason) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
      reason_ = reason;
      messages_.clear();
    }
    arrivals_.fetch_add(1, std::memory_order_release);
    arrived_.notify_all();
  }

 private:
  std::optional<Message> look(const MessageKey& key) {
    std::lock_guard lock(mutex_);
    return extract(key);
  }
  std::optional<Message> extract(const MessageKey& key) {
    check_open();
    auto node = messages_.extract(key);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  }
  void check_open() const {
    if (closed_) throw CommError(reason_);
  }

  const SteadyClock::duration spin_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::atomic<int> arrivals_{0};
  std::map<MessageKey, Message> messages_;
  bool closed_ = false;
  std::string reason_;
};

class LocalTransport : public Transport {
 public:
  explicit LocalTransport(int devices) {
    for (int device = 0; device < devices; ++device) mailboxes_.emplace_back(spin_of(devices));
  }
  void send(int to_device, const MessageKey& key, Message message) override { mailboxes_[to_device].put(key, std::move(message)); }
  std::optional<Message> receive(int device, const MessageKey& key, double seconds) override {
    return mailboxes_[device].take(key, seconds);
  }
  void close(const std::string& reason) override {
    for (auto& mailbox : mailboxes_) mailbox.close(reason);
  }

 private:
  std::deque<Mailbox> mailboxes_;  // which do not move
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(int devices) { return std::make_unique<LocalTransport>(devices); }

}  // namespace sluice::parallel
