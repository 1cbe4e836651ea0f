#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice::parallel {

/// The thread of one device. Runs one job at a time; a job must not throw. One whose job never ends cannot be destroyed: whoever gives it
/// up keeps it for ever.
/// Errors   ResourceError when the system refuses the thread.
/// Threads  one owner submits and waits.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(std::function<void()> job);
  /// Waits until the submitted job has ended (true), or until then (false).
  bool wait_until(std::chrono::steady_clock::time_point end);

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool closing_ = false;
  std::jthread thread_;
};

}  // namespace sluice::parallel
