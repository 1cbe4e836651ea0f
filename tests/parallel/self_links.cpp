#include "tests/parallel/self_links.h"

#include <deque>
#include <mutex>

#include "core/cuda/nccl.h"

namespace sluice::testing {

using namespace parallel;

class SelfLinks::Channel {
 public:
  explicit Channel(int gpu) : communicator_(gpu, nccl::new_unique_id(), 1, 0) {}

  GpuLink::HasEnded add(bool is_send, const Tensor& tensor, const Event& ready) {
    std::lock_guard lock(calling_);
    auto half = std::make_shared<Half>(tensor, ready);
    (is_send ? sends_ : receives_).push_back(half);
    if (!sends_.empty() && !receives_.empty()) join();
    return [half] {
      std::lock_guard looking(calling_);
      return half->is_begun && has_passed(half->end);
    };
  }
  void check() {
    std::lock_guard lock(calling_);
    communicator_.check();
  }
  void abandon() noexcept { communicator_.abandon(); }

 private:
  struct Half {
    Half(Tensor t, Event e) : tensor(std::move(t)), ready(std::move(e)) {}
    Tensor tensor;
    Event ready, end;
    bool is_begun = false;
  };

  void join() {
    Half &send = *sends_.front(), &receive = *receives_.front();
    send.end = receive.end = communicator_.send_to_self(send.tensor.data(), receive.tensor.data(), static_cast<size_t>(send.tensor.bytes()),
                                                        send.ready, receive.ready);
    send.is_begun = receive.is_begun = true;
    sends_.pop_front();
    receives_.pop_front();
  }

  static inline std::mutex calling_;  ///< one thread at a time calls NCCL for the GPU
  nccl::Communicator communicator_;
  std::deque<std::shared_ptr<Half>> sends_, receives_;
};

class SelfLinks::End : public GpuLink {
 public:
  explicit End(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  HasEnded send(const Tensor& tensor, const Event& ready) override { return channel_->add(true, tensor, ready); }
  HasEnded receive(const Tensor& room, const Event& free) override { return channel_->add(false, room, free); }
  void check() override { channel_->check(); }
  void abandon() noexcept override { channel_->abandon(); }

 private:
  const std::shared_ptr<Channel> channel_;
};

SelfLinks::SelfLinks(int gpu, const std::set<ChannelEnds>& channels) {
  for (const ChannelEnds& ends : channels) channels_[ends] = std::make_shared<Channel>(gpu);
}

SelfLinks::~SelfLinks() = default;

GpuLinks SelfLinks::of(const DeviceRanks& ranks) const {
  GpuLinks links;
  for (const auto& [ends, channel] : channels_)
    if (ranks.is_here(ends.from) || ranks.is_here(ends.to)) links[ends] = std::make_unique<End>(channel);
  return links;
}

}  // namespace sluice::testing
