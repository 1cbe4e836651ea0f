#include "parallel/run/worker.h"

#include "core/start_thread.h"

namespace sluice::parallel {

Worker::Worker() : thread_(start_thread("a device's worker", [this] { serve(); })) {}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::submit(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
}

bool Worker::wait_until(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, end, [this] { return !job_; });
}

void Worker::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || job_; });
    if (!job_) return;
    lock.unlock();
    job_();
    lock.lock();
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace sluice::parallel
