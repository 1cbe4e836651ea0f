#include "tests/emulation/queue.h"

#include <chrono>
#include <utility>

namespace sluice::emulation {

void Queue::put(std::function<void()> work) {
  waiting_.push_back(std::move(work));
  ++put_;
  if (waiting_.size() <= kMostWaiting) return;
  try {
    run_until(run_ + 1);
  } catch (const Blocked&) {  // as a launch queue does that another rank holds up
  }
}

void Queue::run_until(uint64_t position) {
  if (run_ < position && is_running_) throw Blocked{};
  while (run_ < position) {
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    is_running_ = true;
    try {
      work();  // may run other queues, and they this one up to here
    } catch (const Blocked&) {
      is_running_ = false;
      waiting_.push_front(std::move(work));
      throw;
    } catch (...) {
      is_running_ = false;
      throw;
    }
    is_running_ = false;
    ++run_;
  }
}

void Queue::drop_all() {
  waiting_.clear();
  run_ = put_;
}

std::shared_ptr<Mark> put_mark(const std::shared_ptr<Queue>& queue) {
  auto mark = std::make_shared<Mark>(Mark{queue, queue->put_count() + 1});
  queue->put([mark] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    mark->milliseconds = std::chrono::duration<double, std::milli>(now).count();
  });
  return mark;
}

}  // namespace sluice::emulation
