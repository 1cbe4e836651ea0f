#include "parallel/run/gpu_rank_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "core/keep_to_the_end.h"
#include "parallel/run/link_thread.h"

namespace sluice::parallel {

namespace {

/// The GPU, or the library that carries what the ends tell, may still write their memory when nobody here waits any more.
void give_up(LinkTransferPtr transfer) {
  transfer->link->abandon();
  keep_to_the_end(std::move(transfer));
}

class GpuRankTransport : public Transport {
 public:
  GpuRankTransport(Group& group, const DeviceRanks& ranks, const GpuLinks& links, std::unique_ptr<Transport> local, uint8_t run)
      : group_(group), ranks_(ranks), links_(links), local_(std::move(local)), run_(run), thread_(std::make_unique<LinkThread>(group)) {
    require(2 * pairs_of_devices() <= group.channel_count(), "pipeline.devices: needs at most ", group.channel_count() / 2,
            " pairs of devices between two ranks, got ", ranks.per_rank(), " devices a rank; start more ranks");
  }

  ~GpuRankTransport() override {
    thread_.reset();
    for (auto* transfers : {&sent_, &posted_})
      for (auto& [key, transfer] : *transfers)
        if (!has_ended(*transfer)) give_up(std::move(transfer));
  }

  void send(const ChannelEnds& ends, const MessageKey& key, Message message) override {
    if (is_local(ends)) return local_->send(ends, key, std::move(message));
    auto transfer = transfer_of(ends, key, std::move(message.tensor), std::move(message.ready.event));
    transfer->is_send = true;
    transfer->told = transfer->tensor.defined() ? transfer->tensor.bytes() : LinkTransfer::kLeftOut;
    begin(sent_, ends, key, std::move(transfer));
  }

  void post(const ChannelEnds& ends, const MessageKey& key, Place place) override {
    if (is_local(ends)) return local_->post(ends, key, std::move(place));
    require_room(place, key);
    auto transfer = transfer_of(ends, key, std::move(place.room), std::move(place.free.event));
    transfer->told = transfer->tensor.bytes();
    begin(posted_, ends, key, std::move(transfer));
  }

  std::optional<Message> receive(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    if (is_local(ends)) return local_->receive(ends, key, seconds);
    auto ended = end_of(posted_, ends, key, seconds);
    if (!ended) return std::nullopt;
    if (ended->heard == LinkTransfer::kLeftOut) return Message{};
    bytes_from_ranks_ += ended->heard;
    return Message{std::move(ended->tensor), {}, ended->heard};
  }

  std::optional<When> finish_send(const ChannelEnds& ends, const MessageKey& key, double seconds) override {
    if (is_local(ends)) return local_->finish_send(ends, key, seconds);
    return end_of(sent_, ends, key, seconds) ? std::optional(When{}) : std::nullopt;
  }

  void close(const std::string& reason) override {
    if (closed_.exchange(true)) return;
    thread_->close(reason);
    local_->close(reason);
    group_.abort(reason);
  }

  int64_t bytes_from_ranks() const override { return bytes_from_ranks_; }

 private:
  using Transfers = std::map<std::pair<ChannelEnds, MessageKey>, LinkTransferPtr>;

  bool is_local(const ChannelEnds& ends) const { return ranks_.of(ends.from) == ranks_.of(ends.to); }
  int pairs_of_devices() const { return ranks_.per_rank() * ranks_.per_rank(); }
  /// Of the group, for what an end tells: the pair of devices among those of their two ranks, once for each direction of telling.
  int group_channel(const ChannelEnds& ends, bool sender_tells) const {
    return ends.from % ranks_.per_rank() * ranks_.per_rank() + ends.to % ranks_.per_rank() + (sender_tells ? 0 : pairs_of_devices());
  }
  LinkTransferPtr transfer_of(const ChannelEnds& ends, const MessageKey& key, Tensor tensor, Event ready) const {
    require(!tensor.defined() || (tensor.device().kind() == DeviceKind::cuda && tensor.is_contiguous()),
            "pipeline.devices: needs row-major tensors on GPUs for links between GPUs, got ",
            tensor.defined() ? tensor.device().name() : "");
    const auto link = links_.find(ends);
    require<Error>(link != links_.end(), "transport: needs a link from device ", ends.from, " to device ", ends.to, ", there are ",
                   links_.size(), " others; connect the channels of the program first; this is a fault of Sluice, report it");
    auto transfer = std::make_shared<LinkTransfer>();
    transfer->ends = ends;
    transfer->name = join(key);
    transfer->other = ranks_.of(ranks_.is_here(ends.from) ? ends.to : ends.from);
    transfer->link = link->second.get();
    transfer->tensor = std::move(tensor);
    transfer->ready = std::move(ready);
    return transfer;
  }

  void begin(Transfers& transfers, const ChannelEnds& ends, const MessageKey& key, LinkTransferPtr transfer) {
    std::lock_guard lock(mutex_);
    thread_->check();
    const auto [place, is_new] = transfers.try_emplace({ends, key}, transfer);
    require<Error>(is_new, "transport: needs one message of each transfer and micro-batch, got a second one of ", key,
                   "; this is a fault of Sluice, report it");
    transfer->telling = group_.send(transfer->other, group_channel(ends, transfer->is_send), std::as_bytes(std::span(&transfer->told, 1)),
                                    label_of(key, run_));
    transfer->hearing = group_.receive(transfer->other, group_channel(ends, !transfer->is_send),
                                       std::as_writable_bytes(std::span(&transfer->heard, 1)), label_of(key, run_));
    thread_->add(std::move(transfer));
  }

  static bool has_ended(const LinkTransfer& transfer) {
    return transfer.is_begun && transfer.telling->is_done && (!transfer.has_ended || transfer.has_ended());
  }

  struct Ended {
    Tensor tensor;
    int64_t heard;
  };
  /// The tensor is the caller's alone: the thread of the links may hold the transfer for as long as its call for another one takes.
  std::optional<Ended> end_of(Transfers& transfers, const ChannelEnds& ends, const MessageKey& key, double seconds) {
    std::unique_lock lock(mutex_);
    const auto found = transfers.find({ends, key});
    require<Error>(found != transfers.end(), "transport: needs a transfer that has begun, got ", key,
                   "; this is a fault of Sluice, report it");
    const LinkTransferPtr transfer = found->second;
    lock.unlock();
    if (!wait(*transfer, deadline_in(seconds))) return std::nullopt;
    lock.lock();
    transfers.erase({ends, key});
    return Ended{std::move(transfer->tensor), transfer->heard};
  }

  /// The thread of a device has nothing else to do, so it looks all the time before it sleeps: a core that slept wakes late.
  bool wait(const LinkTransfer& transfer, SteadyClock::time_point deadline) {
    constexpr auto kSpin = std::chrono::milliseconds(2);
    constexpr auto kSleep = std::chrono::microseconds(50);
    if (!thread_->wait_for_begin(transfer, deadline)) return false;
    for (const auto began = SteadyClock::now(); !has_ended(transfer);) {
      thread_->check();
      if (SteadyClock::now() >= deadline) return false;
      if (!transfer.telling->is_done) group_.wait(*transfer.telling, 0);
      SteadyClock::now() < began + kSpin ? std::this_thread::yield() : std::this_thread::sleep_for(kSleep);
    }
    return true;
  }

  Group& group_;
  const DeviceRanks ranks_;
  const GpuLinks& links_;
  const std::unique_ptr<Transport> local_;
  const uint8_t run_;
  std::unique_ptr<LinkThread> thread_;
  std::atomic<int64_t> bytes_from_ranks_ = 0;
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;  ///< guards the next two
  Transfers sent_, posted_;
};

}  // namespace

std::unique_ptr<Transport> make_gpu_rank_transport(Group& group, const DeviceRanks& ranks, const GpuLinks& links,
                                                   std::unique_ptr<Transport> local, uint8_t run) {
  return std::make_unique<GpuRankTransport>(group, ranks, links, std::move(local), run);
}

}  // namespace sluice::parallel
