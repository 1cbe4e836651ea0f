#include <atomic>
#include <chrono>
#include <thread>

#include "parallel/transport.h"

namespace sluice::parallel {

namespace {

constexpr int kSpins = 4000;  // some 20 microseconds

class Mailbox {
 public:
  void put(const MessageKey& key, Message message) {
    {
      std::lock_guard lock(mutex_);
      check_open();
      messages_.emplace(key, std::move(message));
    }
    arrivals_.fetch_add(1, std::memory_order_release);
    arrived_.notify_all();
  }

  std::optional<Message> take(const MessageKey& key, double seconds) {
    const int seen = arrivals_.load(std::memory_order_acquire);
    if (auto message = look(key)) return message;
    if (seconds <= 0) return std::nullopt;
    for (int spin = 0; spin < kSpins && arrivals_.load(std::memory_order_acquire) == seen; ++spin) __builtin_ia32_pause();
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    arrived_.wait_until(lock, deadline, [&] { return closed_ || messages_.contains(key); });
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

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::atomic<int> arrivals_{0};
  std::map<MessageKey, Message> messages_;
  bool closed_ = false;
  std::string reason_;
};

class LocalTransport : public Transport {
 public:
  explicit LocalTransport(int devices) : mailboxes_(devices) {}
  void send(int to_device, const MessageKey& key, Message message) override { mailboxes_[to_device].put(key, std::move(message)); }
  std::optional<Message> receive(int device, const MessageKey& key, double seconds) override {
    return mailboxes_[device].take(key, seconds);
  }
  void close(const std::string& reason) override {
    for (auto& mailbox : mailboxes_) mailbox.close(reason);
  }

 private:
  std::vector<Mailbox> mailboxes_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(int devices) { return std::make_unique<LocalTransport>(devices); }

}  // namespace sluice::parallel
