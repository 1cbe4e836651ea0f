#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_sampler.h"
#include "data/dataset.h"
#include "data/prefetcher.h"

namespace sluice::data {

using DatasetPtr = std::shared_ptr<const Dataset>;

/// Consecutive samples of a mini-batch.
struct SampleRange {
  int64_t begin = 0, end = 0;
};

struct LoaderOptions {
  int64_t batch = 1;  ///< samples a step, where no sampler is given
  uint64_t seed = 0;  ///< of their order, where no sampler is given
  int threads = 1;    ///< prefetch workers; 0 loads when asked
  int ahead = 4;      ///< batches that workers load beyond the last one asked for
  /// To prefetch: those that stages here consume. Nothing given: all.
  std::optional<std::vector<std::string>> inputs{};
  /// Which samples of a mini-batch of so many are prefetched of an input: those that replicas here train on. Called from any thread; empty: all.
  std::function<SampleRange(const std::string& input, int64_t samples)> part{};
};

/// What is loaded before it is asked for.
struct Prefetched {
  std::vector<std::string> inputs;
  std::function<SampleRange(const std::string& input, int64_t samples)> part;  ///< never empty
};

/// The training batches of a data set, loaded ahead by worker threads.
///
/// Batch `step` is a pure function of (data set, sampler, step): epochs follow each other, and which samples a batch of an epoch has is up
/// to the sampler; without one a ShuffledSampler. So a run resumes from its step alone, and the number of threads changes nothing. Batches
/// may have different numbers of samples. Inputs and samples that are not prefetched are loaded when asked for.
/// Errors   UsageError for options out of range, as a part of samples beyond the mini-batch, and for a data set or sampler that is null or a
///          sampler without mini-batches; DataError when the data set has fewer samples than a batch. What a worker meets is thrown by `at`
///          for that step; asking again tries again.
/// Threads  the public functions: one at a time. A Batch may outlive the loader.
class Loader {
 public:
  Loader(DatasetPtr dataset, LoaderOptions options);
  Loader(DatasetPtr dataset, BatchSamplerPtr sampler, LoaderOptions options);

  int64_t steps_per_epoch() const { return sampler_->batches_per_epoch(); }
  Batch at(int64_t step);
  /// Seconds that callers of `at` have waited for samples so far.
  double seconds_waited() const { return seconds_waited_; }

 private:
  Batch make(int64_t step) const;

  DatasetPtr dataset_;
  BatchSamplerPtr sampler_;
  Prefetched prefetched_;
  double seconds_waited_ = 0;
  Prefetcher prefetcher_;
};

/// Validation samples that everything to be compared is scored on: all, or `limit` of them spread evenly when limit > 0 and there are more.
std::vector<int64_t> validation_samples(const Dataset& dataset, int64_t limit);

/// Those samples in batches of one bucket, the last one of a bucket possibly smaller, loaded ahead by worker threads as a Loader does. The
/// seed has no part in it. A sampler, if given, says instead what the batches are: those of its epoch 0.
/// Errors   UsageError for options out of range, a data set or sampler that is null, and a batch that is not there. What a worker meets is
///          thrown by `at`.
/// Threads  as Loader.
class ValidationLoader {
 public:
  ValidationLoader(DatasetPtr dataset, LoaderOptions options, int64_t limit);
  ValidationLoader(DatasetPtr dataset, BatchSamplerPtr sampler, LoaderOptions options);

  int64_t size() const { return sampler_->batches_per_epoch(); }
  Batch at(int64_t number);

 private:
  Batch make(int64_t number) const;

  DatasetPtr dataset_;
  BatchSamplerPtr sampler_;
  Prefetched prefetched_;
  Prefetcher prefetcher_;
};

}  // namespace sluice::data
