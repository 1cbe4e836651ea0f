#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/dataset.h"

namespace sluice::data {

/// Which samples the mini-batches of an epoch have.
/// Threads  all functions: any. They are pure: equal arguments give equal samples.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// The same in every epoch, at least 1.
  virtual int64_t batches_per_epoch() const = 0;
  /// The samples of mini-batch `number` of an epoch, at least one, 0 <= number < batches_per_epoch().
  virtual std::vector<int64_t> samples(int64_t epoch, int64_t number) const = 0;
};

using BatchSamplerPtr = std::shared_ptr<const BatchSampler>;

/// Batches of one size from a shuffled order of all samples, another one in each epoch. The last incomplete batch is left out.
/// Errors  UsageError for a batch < 1; DataError for fewer samples than a batch.
class ShuffledSampler : public BatchSampler {
 public:
  ShuffledSampler(int64_t size, int64_t batch, uint64_t seed);

  int64_t batches_per_epoch() const override { return size_ / batch_; }
  std::vector<int64_t> samples(int64_t epoch, int64_t number) const override;

 private:
  int64_t size_, batch_;
  uint64_t seed_;
};

/// Given samples once each, in order, in batches whose samples have one bucket; the last batch of a bucket may be smaller than others.
/// Every epoch is the same, and there may be no batch.
/// Errors  UsageError for a batch < 1.
class SequentialSampler : public BatchSampler {
 public:
  /// `batch` gives the most samples of a batch by its bucket.
  SequentialSampler(const Dataset& dataset, Split split, std::vector<int64_t> samples, const std::function<int64_t(int64_t bucket)>& batch);

  int64_t batches_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }
  std::vector<int64_t> samples(int64_t epoch, int64_t number) const override;

 private:
  std::vector<std::vector<int64_t>> batches_;
};

}  // namespace sluice::data
