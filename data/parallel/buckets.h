#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::data {

/// Lengths of a pair in tokens, or what a bucket pads its pairs to.
struct PairLengths {
  int64_t source = 0, target = 0;
  bool operator==(const PairLengths&) const = default;
  bool fits(const PairLengths& bucket) const { return source <= bucket.source && target <= bucket.target; }
  int64_t tokens() const { return source + target; }
};

/// Shapes for pairs of these lengths, at most `most` of them, in the order of their tokens; the last one is `longest`. They begin as a grid
/// of 4, 6, 8 ... 16, 20, 24 ... 32, 40 ... tokens a side, four steps for each doubling. Then two at a time are merged into one that holds
/// both, those first which add the least padding, until they are few enough and each but the longest has 1/200 of the pairs.
/// Errors  UsageError for sides < 1 or most < 1.
/// Cost    lengths * log(shapes) + shapes^3, the grid having up to 250 shapes for 64 tokens a side and 1000 for 1024.
std::vector<PairLengths> choose_buckets(std::span<const PairLengths> lengths, PairLengths longest, int64_t most);

/// The first bucket that a pair fits in, so the one with the fewest tokens; -1 when it fits in none.
int64_t find_bucket(std::span<const PairLengths> buckets, PairLengths lengths);

}  // namespace sluice::data
