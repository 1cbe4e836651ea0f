#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "core/batch.h"
#include "data/dataset.h"

namespace sluice::data {

using DatasetPtr = std::shared_ptr<const Dataset>;

struct LoaderOptions {
  int64_t batch = 1;  ///< samples a step
  uint64_t seed = 0;
  int threads = 1;                       ///< prefetch workers; 0 loads when asked
  int ahead = 4;                         ///< steps that workers load beyond the last one asked for
  std::vector<std::string> inputs = {};  ///< inputs to prefetch, the ones that stages here consume; empty means all
};

/// The training batches of a data set, loaded ahead by worker threads.
///
/// Batch `step` is a pure function of (data set, seed, batch size, step): epochs follow each other, each in a shuffled order of its own,
/// and the last incomplete batch of an epoch is left out. So a run resumes from its step alone, and the number of threads changes nothing.
/// Inputs that are not prefetched are loaded when asked for.
/// Errors   UsageError for options out of range; DataError when the data set has fewer samples than a batch. What a worker meets is thrown
///          by `at` for that step; asking again tries again.
/// Threads  the public functions: one at a time. A Batch may outlive the loader.
class Loader {
 public:
  Loader(DatasetPtr dataset, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  Batch at(int64_t step);
  /// Seconds that callers of `at` have waited for samples so far.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Slot {
    bool done = false;
    Batch batch;
    std::exception_ptr error;
  };
  Batch make(int64_t step) const;
  Batch take(int64_t step);
  void ask_for(int64_t first, int64_t last);
  void work();

  DatasetPtr dataset_;
  LoaderOptions options_;
  int64_t steps_per_epoch_;
  double seconds_waited_ = 0;

  std::mutex mutex_;
  std::condition_variable asked_, loaded_;
  bool stop_ = false;
  std::map<int64_t, std::shared_ptr<Slot>> slots_;               ///< steps that are asked for or loaded
  std::deque<std::pair<int64_t, std::shared_ptr<Slot>>> queue_;  ///< steps that no worker has taken
  std::vector<std::thread> workers_;
};

/// Validation samples that everything to be compared is scored on: all, or `limit` of them spread evenly when limit > 0 and there are more.
std::vector<int64_t> validation_samples(const Dataset& dataset, int64_t limit);

/// Those samples in batches, the last one possibly smaller; each batch loads when asked.
/// Errors  UsageError for batch < 1.
std::vector<Batch> validation_batches(const DatasetPtr& dataset, int64_t batch, int64_t limit);

}  // namespace sluice::data
