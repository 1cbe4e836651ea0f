#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/batch.h"

namespace sluice::data {

/// Batches by number, made ahead by worker threads. `make` is called from any thread, for several numbers at a time, and must be a
/// function of the number: then the number of threads changes nothing.
/// Errors   UsageError for threads or ahead below 0; ResourceError when the system refuses a thread. What `make` throws is thrown by `at`
///          for that number; asking again tries again.
/// Threads  `at`: one at a time.
class Prefetcher {
 public:
  /// `threads` = 0 makes a batch when it is asked for. At most `ahead` batches beyond the last one asked for are made, none from `end` on.
  Prefetcher(std::function<Batch(int64_t)> make, int threads, int64_t ahead, int64_t end = std::numeric_limits<int64_t>::max());
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  Batch at(int64_t number);

 private:
  struct Slot {
    bool done = false;
    Batch batch;
    std::exception_ptr error;
  };
  void ask_for(int64_t first, int64_t last);
  void work();
  void close();

  std::function<Batch(int64_t)> make_;
  int64_t ahead_, end_;
  std::mutex mutex_;
  std::condition_variable asked_, made_;
  bool stop_ = false;
  std::map<int64_t, std::shared_ptr<Slot>> slots_;               ///< numbers that are asked for or made
  std::deque<std::pair<int64_t, std::shared_ptr<Slot>>> queue_;  ///< numbers that no worker has taken
  std::vector<std::jthread> workers_;
};

}  // namespace sluice::data
