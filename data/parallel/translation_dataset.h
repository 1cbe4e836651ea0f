#pragma once
#include "core/batch.h"
#include "data/dataset.h"
#include "data/parallel/token_pairs.h"

namespace sluice::data {

struct TranslationOptions {
  PairLengths longest{64, 64};  ///< tokens a side, tags and end included; longer pairs are left out
  int64_t buckets = 12;         ///< at most: each has a shape of mini-batches of its own
};

/// Samples of a translation model. The inputs, padded to the lengths S and T of the sample's bucket, all of dtype i32:
///   source [S] and source_length [], how many of its ids are no padding;
///   target [T] and target_length []: what a decoder has seen, the tag of the language first;
///   labels [T]: the id that comes next, the end of the sentence last, and -100 for padding.
/// The samples of one load must be of one bucket.
/// Errors  UsageError for buckets as `choose_buckets`; DataError when no training pair fits in the longest.
class TranslationDataset : public Dataset {
 public:
  TranslationDataset(TokenPairs train, TokenPairs validation, const TranslationOptions& options);

  std::vector<std::string> inputs() const override { return {"source", "source_length", "target", "target_length", "labels"}; }
  int64_t size(Split split) const override { return static_cast<int64_t>(part(split).samples.size()); }
  int64_t bucket(Split split, int64_t sample) const override;
  Tensor load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const override;

  /// The shapes (S, T), in the order of their tokens; the last one is the longest.
  std::span<const PairLengths> buckets() const { return buckets_; }
  PairLengths longest() const { return buckets_.back(); }
  /// A mini-batch of samples that all fill the longest bucket, for plans and measurements; made of the ids of training pairs.
  Batch longest_batch(int64_t samples) const;

  /// The pair of a sample. Its number is that of TokenPairs without the pairs left out.
  PairLengths lengths(Split split, int64_t sample) const { return part(split).pairs.lengths(pair_of(split, sample)); }
  int64_t group(Split split, int64_t sample) const { return part(split).pairs.group(pair_of(split, sample)); }
  /// The number that the pair of a sample had in the TokenPairs given.
  int64_t pair_of(Split split, int64_t sample) const;
  /// Pairs left out, being longer than the longest bucket.
  int64_t too_long(Split split) const { return part(split).pairs.size() - size(split); }

 private:
  struct Part {
    TokenPairs pairs;
    std::vector<int64_t> samples = {};  ///< the pair of each
    std::vector<int32_t> buckets = {};  ///< the bucket of each
  };
  const Part& part(Split split) const { return split == Split::train ? train_ : validation_; }
  void assign(Part& part) const;

  Part train_, validation_;
  std::vector<PairLengths> buckets_;
};

}  // namespace sluice::data
