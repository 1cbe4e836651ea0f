#include "data/prefetcher.h"

#include <algorithm>

#include "core/error.h"
#include "core/start_thread.h"

namespace sluice::data {

Prefetcher::Prefetcher(std::function<Batch(int64_t)> make, int threads, int64_t ahead, int64_t end)
    : make_(std::move(make)), ahead_(ahead), end_(end) {
  require(threads >= 0 && ahead >= 0, "loader: needs threads >= 0 and ahead >= 0, got ", threads, " and ", ahead);
  workers_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) workers_.push_back(start_thread("the data loader", [this] { work(); }));
  } catch (...) {
    close();
    throw;
  }
}

Prefetcher::~Prefetcher() { close(); }

void Prefetcher::close() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  asked_.notify_all();
  workers_.clear();
}

void Prefetcher::ask_for(int64_t first, int64_t last) {
  const auto outside = [&](int64_t number) { return number < first || number > last; };
  std::erase_if(slots_, [&](const auto& slot) { return outside(slot.first); });
  std::erase_if(queue_, [&](const auto& entry) { return outside(entry.first); });
  for (int64_t number = first; number <= last; ++number) {
    const auto [slot, is_new] = slots_.try_emplace(number);
    if (!is_new) continue;
    slot->second = std::make_shared<Slot>();
    queue_.emplace_back(number, slot->second);
  }
  std::sort(queue_.begin(), queue_.end());  // after a jump back, the number that is waited for comes first
}

Batch Prefetcher::at(int64_t number) {
  if (workers_.empty()) return make_(number);
  std::unique_lock lock(mutex_);
  ask_for(number, std::max(number, std::min(end_ - 1, number + ahead_)));
  asked_.notify_all();
  const std::shared_ptr<Slot> slot = slots_.at(number);
  made_.wait(lock, [&] { return slot->done; });
  slots_.erase(number);
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

void Prefetcher::work() {
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

}  // namespace sluice::data
