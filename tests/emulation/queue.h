#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

namespace sluice::emulation {

/// Thrown by work that waits for another rank: it stays the next of its queue, to be tried again.
struct Blocked {};

/// The work of one stream, which runs as late as a program may rely on: when somebody synchronises with it, or when another queue, being
/// run, comes to wait for one of its marks. So a missing wait between streams shows as wrong data every time.
/// Work that waits for a mark was queued after it, so waits cannot form a circle, unless ranks wait for each other.
/// Threads  one at a time; work runs on the thread that synchronises.
class Queue {
 public:
  static constexpr size_t kMostWaiting = 4096;  ///< beyond that the oldest work runs, to bound memory

  Queue(int device, bool waits_for_default) : device_(device), waits_for_default_(waits_for_default) {}

  int device() const { return device_; }
  bool waits_for_default() const { return waits_for_default_; }  ///< and the default stream for it
  void put(std::function<void()> work);
  /// Runs the first `position` pieces of work ever put, those that have not run yet. Errors  whatever the work throws; Blocked where it, or
  /// what runs already further up the stack, waits for another rank.
  void run_until(uint64_t position);
  void run_all() { run_until(put_); }
  void drop_all();
  uint64_t put_count() const { return put_; }
  uint64_t run_count() const { return run_; }

 private:
  int device_;
  bool waits_for_default_;
  std::deque<std::function<void()>> waiting_;
  uint64_t put_ = 0, run_ = 0;
  bool is_running_ = false;
};

/// A place in a queue, as an event records it.
struct Mark {
  std::shared_ptr<Queue> queue;
  uint64_t position = 0;
  double milliseconds = 0;  ///< when it was passed

  bool passed() const { return queue->run_count() >= position; }
  void pass() const { queue->run_until(position); }
};
std::shared_ptr<Mark> put_mark(const std::shared_ptr<Queue>& queue);

}  // namespace sluice::emulation
