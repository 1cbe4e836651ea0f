#include "data/batch_sampler.h"

#include <algorithm>
#include <map>

#include "core/random.h"
#include "data/permutation.h"

namespace sluice::data {

ShuffledSampler::ShuffledSampler(int64_t size, int64_t batch, uint64_t seed) : size_(size), batch_(batch), seed_(seed) {
  require(batch >= 1, "loader: needs a batch of at least 1 sample, got ", batch);
  require<DataError>(size >= batch, "loader: the data has ", size, " training samples, fewer than the batch of ", batch,
                     "; set a smaller batch or context, or give more data");
}

std::vector<int64_t> ShuffledSampler::samples(int64_t epoch, int64_t number) const {
  const Permutation order(size_, random_key(seed_, join("shuffle epoch ", epoch)));
  std::vector<int64_t> samples(static_cast<size_t>(batch_));
  for (int64_t i = 0; i < batch_; ++i) samples[static_cast<size_t>(i)] = order[number * batch_ + i];
  return samples;
}

SequentialSampler::SequentialSampler(const Dataset& dataset, Split split, std::vector<int64_t> samples,
                                     const std::function<int64_t(int64_t bucket)>& batch) {
  std::map<int64_t, std::vector<int64_t>> of_bucket;
  for (const int64_t sample : samples) of_bucket[dataset.bucket(split, sample)].push_back(sample);
  for (const auto& [bucket, members] : of_bucket) {
    const int64_t most = batch(bucket), count = static_cast<int64_t>(members.size());
    require(most >= 1, "loader: needs a batch of at least 1 sample, got ", most);
    for (int64_t first = 0; first < count; first += most)
      batches_.emplace_back(members.begin() + first, members.begin() + std::min(count, first + most));
  }
}

std::vector<int64_t> SequentialSampler::samples(int64_t, int64_t number) const { return batches_.at(static_cast<size_t>(number)); }

}  // namespace sluice::data
