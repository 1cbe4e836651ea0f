#include "data/parallel/token_budget_sampler.h"

#include <algorithm>
#include <cmath>

#include "core/distributions.h"
#include "core/error.h"
#include "core/random.h"
#include "data/loader.h"
#include "data/parallel/temperature.h"
#include "data/permutation.h"

namespace sluice::data {

namespace {

enum RandomUse : uint32_t { kOrderOfBatches, kRounding, kSlots, kSamples };

int64_t samples_within(const TokenBudgetOptions& options, PairLengths longest, PairLengths bucket) {
  require(options.samples >= 1, "sampler: needs at least 1 sample a mini-batch, got ", options.samples);
  return std::min(options.samples * longest.source / bucket.source, options.samples * longest.target / bucket.target);
}

/// How many training samples each group has.
std::vector<double> group_sizes(const TranslationDataset& dataset) {
  std::vector<double> sizes;
  for (int64_t sample = 0; sample < dataset.size(Split::train); ++sample) {
    const auto group = static_cast<size_t>(dataset.group(Split::train, sample));
    if (group >= sizes.size()) sizes.resize(group + 1);
    ++sizes[group];
  }
  return sizes;
}

}  // namespace

TokenBudgetSampler::TokenBudgetSampler(const TranslationDataset& dataset, const TokenBudgetOptions& options)
    : key_(random_key(options.seed, "token budget")) {
  const auto sizes = group_sizes(dataset), shares = temperature_shares(sizes, options.temperature);
  const auto total = static_cast<double>(dataset.size(Split::train));
  shares_.resize(dataset.buckets().size(), std::vector<Share>(sizes.size()));
  for (int64_t sample = 0; sample < dataset.size(Split::train); ++sample)
    shares_[static_cast<size_t>(dataset.bucket(Split::train, sample))][static_cast<size_t>(dataset.group(Split::train, sample))]
        .samples.push_back(sample);
  for (size_t bucket = 0; bucket < shares_.size(); ++bucket) {
    double draws = 0;
    for (size_t group = 0; group < sizes.size(); ++group) {
      Share& share = shares_[bucket][group];
      if (!share.samples.empty()) draws += total * shares[group] * static_cast<double>(share.samples.size()) / sizes[group];
      share.end = draws;
    }
    std::erase_if(shares_[bucket], [](const Share& share) { return share.samples.empty(); });
    batch_samples_.push_back(samples_within(options, dataset.longest(), dataset.buckets()[bucket]));
    const auto batches = static_cast<int64_t>(std::llround(draws / static_cast<double>(batch_samples_.back())));
    first_batch_.push_back(first_batch_.back() + (shares_[bucket].empty() ? 0 : std::max<int64_t>(1, batches)));
  }
}

int64_t TokenBudgetSampler::batch_samples(int64_t bucket) const { return batch_samples_.at(static_cast<size_t>(bucket)); }

int64_t TokenBudgetSampler::batches_per_epoch(int64_t bucket) const {
  return first_batch_.at(static_cast<size_t>(bucket) + 1) - first_batch_[static_cast<size_t>(bucket)];
}

uint64_t TokenBudgetSampler::key(uint32_t use, int64_t epoch, uint32_t a, uint32_t b) const {
  const auto words = philox({static_cast<uint32_t>(epoch), use, a, b}, {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  return uint64_t{words[0]} << 32 | words[1];
}

/// Where the slots of each share end, of all samples that the bucket gives in the epoch. What a share has beyond whole slots is rounded at
/// random, with the right mean over epochs.
std::vector<int64_t> TokenBudgetSampler::shares_of_slots(size_t bucket, int64_t epoch) const {
  const auto& shares = shares_[bucket];
  const auto slots = static_cast<double>(batches_per_epoch(static_cast<int64_t>(bucket)) * batch_samples_[bucket]);
  const double rounding = uniform_from(static_cast<uint32_t>(key(kRounding, epoch, static_cast<uint32_t>(bucket), 0)));
  std::vector<int64_t> ends;
  for (const auto& share : shares) ends.push_back(static_cast<int64_t>(std::floor(share.end / shares.back().end * slots + rounding)));
  return ends;
}

std::vector<int64_t> TokenBudgetSampler::samples(int64_t epoch, int64_t number) const {
  const int64_t batch = Permutation(batches_per_epoch(), key(kOrderOfBatches, epoch, 0, 0))[number];
  const auto bucket = static_cast<size_t>(std::upper_bound(first_batch_.begin(), first_batch_.end(), batch) - first_batch_.begin() - 1);
  const int64_t count = batch_samples_[bucket], first = (batch - first_batch_[bucket]) * count;
  const auto ends = shares_of_slots(bucket, epoch);
  const Permutation slots(ends.back(), key(kSlots, epoch, static_cast<uint32_t>(bucket), 0));
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t slot = slots[first + i];
    const auto share = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), slot) - ends.begin());
    const auto& members = shares_[bucket][share].samples;
    const int64_t draw = slot - (share > 0 ? ends[share - 1] : 0), size = static_cast<int64_t>(members.size());
    const auto use = static_cast<uint32_t>(kSamples + bucket);
    const Permutation order(size, key(use, epoch, static_cast<uint32_t>(share), static_cast<uint32_t>(draw / size)));
    samples[static_cast<size_t>(i)] = members[static_cast<size_t>(order[draw % size])];
  }
  return samples;
}

BatchSamplerPtr token_budget_validation(const TranslationDataset& dataset, const TokenBudgetOptions& options, int64_t limit) {
  return std::make_shared<SequentialSampler>(dataset, Split::validation, validation_samples(dataset, limit), [&](int64_t bucket) {
    return samples_within(options, dataset.longest(), dataset.buckets()[static_cast<size_t>(bucket)]);
  });
}

}  // namespace sluice::data
