#include "data/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/start_thread.h"

namespace sluice::data {

/// What is asked for, and the threads that make it.
/// Threads  take(): one at a time.
class Prefetcher::Queue {
 public:
  Queue(const std::function<Batch(int64_t)>& make, int threads) : make_(make) {
    workers_.reserve(static_cast<size_t>(threads));
    try {
      for (int i = 0; i < threads; ++i) workers_.push_back(start_thread("the data loader", [this] { work(); }));
    } catch (...) {
      close();
      throw;
    }
  }
  ~Queue() { close(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Asks for the numbers from `number` to `last`, and for no others any more, and waits for the first.
  Batch take(int64_t number, int64_t last) {
    std::unique_lock lock(mutex_);
    ask_for(number, last);
    asked_.notify_all();
    const std::shared_ptr<Slot> slot = slots_.at(number);
    made_.wait(lock, [&] { return slot->done; });
    slots_.erase(number);
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(slot->batch);
  }

 private:
  struct Slot {
    bool done = false;
    Batch batch;
    std::exception_ptr error;
  };

  void ask_for(int64_t first, int64_t last) {
    const auto outside = [&](int64_t number) { return number < first || number > last; };
    std::erase_if(slots_, [&](const auto& slot) { return outside(slot.first); });
    std::erase_if(queue_, [&](const auto& entry) { return outside(entry.first); });
    for (int64_t number = first; number < last; ++number) ask_for(number);
    ask_for(last);                            // there may be no number behind it
    std::sort(queue_.begin(), queue_.end());  // after a jump back, the number that is waited for comes first
  }

  void ask_for(int64_t number) {
    const auto [slot, is_new] = slots_.try_emplace(number);
    if (!is_new) return;
    slot->second = std::make_shared<Slot>();
    queue_.emplace_back(number, slot->second);
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      asked_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const auto [number, slot] = queue_.front();
      queue_.pop_front();
      lock.unlock();
      try {
        slot->batch = make_(number);
      } catch (...) {
        slot->error = std::current_exception();
      }
      lock.lock();
      slot->done = true;
      made_.notify_all();
    }
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    asked_.notify_all();
    workers_.clear();
  }

  const std::function<Batch(int64_t)>& make_;
  std::mutex mutex_;
  std::condition_variable asked_, made_;
  bool stop_ = false;
  std::map<int64_t, std::shared_ptr<Slot>> slots_;               ///< numbers that are asked for or made
  std::deque<std::pair<int64_t, std::shared_ptr<Slot>>> queue_;  ///< numbers that no worker has taken
  std::vector<std::jthread> workers_;
};

Prefetcher::Prefetcher(std::function<Batch(int64_t)> make, int threads, int64_t ahead, int64_t end)
    : make_(std::move(make)), ahead_(ahead), end_(end) {
  require(threads >= 0 && ahead >= 0, "loader: needs threads >= 0 and ahead >= 0, got ", threads, " and ", ahead);
  if (threads > 0) queue_ = std::make_unique<Queue>(make_, threads);
}

Prefetcher::~Prefetcher() = default;

Batch Prefetcher::at(int64_t number) {
  if (!queue_) return make_(number);
  const bool is_far_from_end = number < end_ - ahead_;  // elsewhere `number + ahead_` may be beyond all numbers
  return queue_->take(number, is_far_from_end ? number + ahead_ : std::max(number, end_ - 1));
}

}  // namespace sluice::data
