#include "tests/emulation/queue.h"

#include <chrono>
#include <utility>

namespace sluice::emulation {

void Queue::put(std::function<void()> work) {
  waiting_.push_back(std::move(work));
  ++put_;
  if (waiting_.size() > kMostWaiting) run_until(run_ + 1);
}

void Queue::run_until(uint64_t position) {
  while (run_ < position) {
    const auto work = std::move(waiting_.front());
    waiting_.pop_front();
    work();  // may run other queues, and they this one up to here
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
