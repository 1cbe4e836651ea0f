#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/parallel/buckets.h"
#include "data/parallel/multilingual_tokenizer.h"

namespace sluice::data {

/// Pairs of token ids: of a source all that an encoder reads, of a target all that a decoder learns, so its first id is only seen and its
/// last id only predicted. A group is a direction, between which a sampler balances.
class TokenPairs {
 public:
  /// Errors  UsageError for an empty source, a target of fewer than two ids, and a group < 0.
  void add(std::span<const int32_t> source, std::span<const int32_t> target, int64_t group);

  int64_t size() const { return static_cast<int64_t>(groups_.size()); }
  std::span<const int32_t> source(int64_t pair) const { return between(2 * pair); }
  std::span<const int32_t> target(int64_t pair) const { return between(2 * pair + 1); }
  int64_t group(int64_t pair) const { return groups_[static_cast<size_t>(pair)]; }
  /// Source ids, and target ids that are predicted.
  PairLengths lengths(int64_t pair) const;

 private:
  std::span<const int32_t> between(int64_t side) const;

  std::vector<int32_t> ids_;
  std::vector<int64_t> begins_{0};  ///< of each side, then the number of ids
  std::vector<int32_t> groups_;
};

/// The pairs of all texts in order; the group of a pair is the index of its text.
TokenPairs tokenize_pairs(std::span<const ParallelText> texts, const MultilingualTokenizer& tokenizer);

}  // namespace sluice::data
