#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

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

  Batch at(int64_t number);

 private:
  class Queue;
  std::function<Batch(int64_t)> make_;
  int64_t ahead_, end_;
  std::unique_ptr<Queue> queue_;  ///< and its threads; null without
};

}  // namespace sluice::data
