#pragma once
#include "data/batch_sampler.h"
#include "data/parallel/translation_dataset.h"

namespace sluice::data {

struct TokenBudgetOptions {
  int64_t samples = 16;    ///< of a mini-batch of the longest bucket, whose tokens are the budget of all
  double temperature = 1;  ///< of the shares of groups, see `temperature_shares`
  uint64_t seed = 0;
};

/// Mini-batches of training pairs, each of one bucket (S, T) and with as many samples n as the budget has room for: n S source tokens and n T
/// target tokens, padding included, are no more than those of a mini-batch of the longest bucket. So a plan for that one holds all.
///
/// An epoch draws about as many samples as there are: a group gets a share by temperature, each of its samples the same. What that gives a
/// bucket is rounded to whole batches, one at least, and within the bucket the shares of groups are kept to within a sample. A group's
/// samples in a bucket come in a shuffled order, again and again where its share is larger. The batches of all buckets are shuffled into
/// each other.
/// Errors  UsageError for options out of range.
/// Cost    a batch: samples * log(groups). Memory: 8 bytes a training pair.
class TokenBudgetSampler : public BatchSampler {
 public:
  TokenBudgetSampler(const TranslationDataset& dataset, const TokenBudgetOptions& options);

  int64_t batches_per_epoch() const override { return first_batch_.back(); }
  std::vector<int64_t> samples(int64_t epoch, int64_t number) const override;

  /// Samples of each mini-batch of a bucket; the last bucket is the longest.
  int64_t batch_samples(int64_t bucket) const;
  int64_t batches_per_epoch(int64_t bucket) const;

 private:
  /// Samples of one group in one bucket.
  struct Share {
    std::vector<int64_t> samples;
    double end = 0;  ///< of its part of the draws from the bucket, in an order of groups
  };
  std::vector<int64_t> shares_of_slots(size_t bucket, int64_t epoch) const;
  uint64_t key(uint32_t use, int64_t epoch, uint32_t a, uint32_t b) const;

  uint64_t key_;
  std::vector<std::vector<Share>> shares_;  ///< by bucket
  std::vector<int64_t> batch_samples_;      ///< by bucket
  std::vector<int64_t> first_batch_{0};     ///< of each bucket before they are shuffled, then the number of batches
};

/// The samples of a validation, at most `limit` of them (`validation_samples`), in batches of one bucket within the same budget.
BatchSamplerPtr token_budget_validation(const TranslationDataset& dataset, const TokenBudgetOptions& options, int64_t limit);

}  // namespace sluice::data
