#include "parallel/run/rank_transport.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "parallel/group/deadline.h"

namespace sluice::parallel {

namespace {

std::span<std::byte> memory_of(const Tensor& tensor) {
  if (!tensor.defined() || tensor.bytes() == 0) return {};
  return {static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(tensor.data()))), static_cast<size_t>(tensor.bytes())};
}

/// The library that moves the bytes may still write them when nobody here waits any more.
void keep_for_ever(Tensor tensor) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<Tensor>;
  std::lock_guard lock(mutex);
  kept.push_back(std::move(tensor));
}

class RankTransport : public Transport {
 public:
  RankTransport(Group& group, const DeviceRanks& ranks, std::unique_ptr<Transport> local, uint8_t run)
      : group_(group), ranks_(ranks), local_(std::move(local)), run_(run) {
    require(ranks.per_rank() * ranks.per_rank() <= group.channel_count(), "pipeline.devices: needs at most ", group.channel_count(),
            " pairs of devices between two ranks, got ", ranks.per_rank(), " devices a rank; start more ranks");
  }

  ~RankTransport() override {
    for (auto* transfers : {&sent_, &posted_})
      for (auto& [key, transfer] : *transfers)
        if (!transfer.request->is_done) keep_for_ever(std::move(transfer.tensor));
  }

  void send(const ChannelEnds& ends, const MessageKey& key, Message message) override {
    if (is_local(ends)) return local_->send(ends, key, std::move(message));
    require_host(message.tensor);
    begin(sent_, ends, key, std::move(message.tensor),
          [&](std::span<std::byte> bytes) { return group_.send(ranks_.of(ends.to), channel(ends), bytes, label_of(key, run_)); });
  }

  void post(const ChannelEnds& ends, const MessageKey& key, Place place) override {
    if (is_local(ends)) return local_->post(ends, key, std::move(place));
    require_room(place, key);
    require_host(place.room);
    begin(posted_, ends, key, std::move(place.room),
          [&](std::span<std::byte> bytes) { return group_.receive(ranks_.of(ends.from), channel(ends), bytes, label_of(key, run_)); });
  }

  std::optional<Message> receive(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    if (is_local(ends)) return local_->receive(ends, key, seconds);
    auto transfer = end_of(posted_, ends, key, seconds);
    if (!transfer) return std::nullopt;
    const auto bytes = static_cast<int64_t>(transfer->request->bytes);
    require<CommError>(bytes == transfer->tensor.bytes() || bytes == 0, "pipeline: needs ", transfer->tensor.bytes(), " bytes of ", key,
                       ", rank ", ranks_.of(ends.from), " sent ", bytes, "; this is a fault of Sluice, report it");
    if (bytes < transfer->tensor.bytes()) transfer->tensor = Tensor();
    bytes_from_ranks_ += bytes;
    return Message{std::move(transfer->tensor), {}, bytes};
  }

  std::optional<When> finish_send(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    if (is_local(ends)) return local_->finish_send(ends, key, seconds);
    return end_of(sent_, ends, key, seconds) ? std::optional(When{}) : std::nullopt;
  }

  void close(const std::string& reason) override {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
      reason_ = reason;
    }
    local_->close(reason);
    group_.abort(reason);
  }

  int64_t bytes_from_ranks() const override { return bytes_from_ranks_; }

 private:
  struct Transfer {
    Tensor tensor;
    RequestPtr request;
  };
  using Transfers = std::map<std::pair<ChannelEnds, MessageKey>, Transfer>;

  static void require_host(const Tensor& tensor) {
    require(!tensor.defined() || tensor.device().kind() == DeviceKind::cpu, "transport: needs tensors of CPU devices, got one of ",
            tensor.defined() ? tensor.device().name() : "none", "; between GPUs of several ranks take make_gpu_rank_transport()");
  }

  bool is_local(const ChannelEnds& ends) const { return ranks_.of(ends.from) == ranks_.of(ends.to); }
  /// Of the pair of devices, among those of their two ranks.
  int channel(const ChannelEnds& ends) const { return ends.from % ranks_.per_rank() * ranks_.per_rank() + ends.to % ranks_.per_rank(); }

  template <class Begin>
  void begin(Transfers& transfers, const ChannelEnds& ends, const MessageKey& key, Tensor tensor, const Begin& start) {
    std::lock_guard lock(mutex_);
    check_open();
    const auto [place, is_new] = transfers.try_emplace({ends, key});
    require<Error>(is_new, "transport: needs one message of each transfer and micro-batch, got a second one of ", key,
                   "; this is a fault of Sluice, report it");
    place->second = {tensor, start(memory_of(tensor))};
  }

  std::optional<Transfer> end_of(Transfers& transfers, const ChannelEnds& ends, const MessageKey& key, double seconds) {
    std::unique_lock lock(mutex_);
    const auto found = transfers.find({ends, key});
    require<Error>(found != transfers.end(), "transport: needs a transfer that has begun, got ", key,
                   "; this is a fault of Sluice, report it");
    const RequestPtr request = found->second.request;
    lock.unlock();
    if (!wait(*request, seconds)) return std::nullopt;
    lock.lock();
    return std::move(transfers.extract({ends, key}).mapped());
  }

  /// In pieces, as close() does not wake a wait of the group.
  bool wait(const Request& request, double seconds) {
    constexpr double kLookSeconds = 0.05;
    for (const auto deadline = deadline_in(seconds);;) {
      const double left = seconds_until(deadline);
      if (group_.wait(request, std::min(left, kLookSeconds))) return true;
      std::lock_guard lock(mutex_);
      check_open();
      if (left <= 0) return false;
    }
  }

  void check_open() const { require<CommError>(!closed_, reason_); }

  Group& group_;
  const DeviceRanks ranks_;
  const std::unique_ptr<Transport> local_;
  const uint8_t run_;
  std::atomic<int64_t> bytes_from_ranks_ = 0;
  std::mutex mutex_;  ///< guards all that follows
  Transfers sent_, posted_;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace

std::unique_ptr<Transport> make_rank_transport(Group& group, const DeviceRanks& ranks, std::unique_ptr<Transport> local, uint8_t run) {
  return std::make_unique<RankTransport>(group, ranks, std::move(local), run);
}

}  // namespace sluice::parallel
