#include "data/parallel/translation_dataset.h"

#include <algorithm>

#include "core/error.h"

namespace sluice::data {

namespace {

constexpr int32_t kPadding = 0, kIgnored = -100;  // the mean of the loss leaves out what is kIgnored

/// What an input takes of a pair: ids for a row, or how many there are.
struct PairInput {
  const char* name;
  bool is_source, is_length;
  size_t skipped;  ///< ids of the target before the first
  int32_t padding;

  std::span<const int32_t> ids(const TokenPairs& pairs, int64_t pair) const {
    if (is_source) return pairs.source(pair);
    const auto target = pairs.target(pair);
    return target.subspan(skipped, target.size() - 1);
  }
};

constexpr PairInput kInputs[] = {{"source", true, false, 0, kPadding},
                                 {"source_length", true, true, 0, kPadding},
                                 {"target", false, false, 0, kPadding},
                                 {"target_length", false, true, 0, kPadding},
                                 {"labels", false, false, 1, kIgnored}};

const PairInput& pair_input(const std::string& name) {
  for (const auto& input : kInputs)
    if (name == input.name) return input;
  throw UsageError(
      join("data: the model asks for input '", name, "'; translation has source, source_length, target, target_length, labels"));
}

std::vector<PairLengths> lengths_of(const TokenPairs& pairs) {
  std::vector<PairLengths> lengths;
  for (int64_t pair = 0; pair < pairs.size(); ++pair) lengths.push_back(pairs.lengths(pair));
  return lengths;
}

}  // namespace

TranslationDataset::TranslationDataset(TokenPairs train, TokenPairs validation, const TranslationOptions& options)
    : train_{std::move(train)},
      validation_{std::move(validation)},
      buckets_(choose_buckets(lengths_of(train_.pairs), options.longest, options.buckets)) {
  assign(train_);
  assign(validation_);
  require<DataError>(size(Split::train) > 0, "data: none of ", train_.pairs.size(), " training pairs has at most ", options.longest.source,
                     " source and ", options.longest.target, " target tokens; give more or shorter pairs, or a longer limit");
}

void TranslationDataset::assign(Part& part) const {
  for (int64_t pair = 0; pair < part.pairs.size(); ++pair) {
    const int64_t bucket = find_bucket(buckets_, part.pairs.lengths(pair));
    if (bucket < 0) continue;
    part.samples.push_back(pair);
    part.buckets.push_back(static_cast<int32_t>(bucket));
  }
}

int64_t TranslationDataset::pair_of(Split split, int64_t sample) const {
  require(sample >= 0 && sample < size(split), "data: needs a sample 0..", size(split) - 1, ", got ", sample);
  return part(split).samples[static_cast<size_t>(sample)];
}

int64_t TranslationDataset::bucket(Split split, int64_t sample) const {
  require(sample >= 0 && sample < size(split), "data: needs a sample 0..", size(split) - 1, ", got ", sample);
  return part(split).buckets[static_cast<size_t>(sample)];
}

Tensor TranslationDataset::load(const std::string& name, Split split, int64_t, std::span<const int64_t> samples) const {
  const PairInput& input = pair_input(name);
  const int64_t shared = samples.empty() ? static_cast<int64_t>(buckets_.size()) - 1 : bucket(split, samples[0]);
  for (const int64_t sample : samples)
    require(bucket(split, sample) == shared, "data: needs samples of one bucket, got ", samples[0], " and ", sample, " of buckets ", shared,
            " and ", bucket(split, sample), "; take the samples that a sampler gives");
  const PairLengths shape = buckets_[static_cast<size_t>(shared)];
  const auto rows = static_cast<int64_t>(samples.size()), width = input.is_source ? shape.source : shape.target;
  const Tensor result = empty(input.is_length ? Shape{rows} : Shape{rows, width}, DType::i32);
  auto* out = result.data<int32_t>();
  for (const int64_t sample : samples) {
    const auto ids = input.ids(part(split).pairs, pair_of(split, sample));
    if (input.is_length) {
      *out++ = static_cast<int32_t>(ids.size());
    } else {
      std::copy(ids.begin(), ids.end(), out);
      std::fill(out + ids.size(), out + width, input.padding);
      out += width;
    }
  }
  return result;
}

Batch TranslationDataset::longest_batch(int64_t samples) const {
  require(samples >= 1, "data: needs a batch of at least 1 sample, got ", samples);
  const auto full = [&](const PairInput& input, int64_t width) {
    const Tensor result = empty(input.is_length ? Shape{samples} : Shape{samples, width}, DType::i32);
    auto* out = result.data<int32_t>();
    auto* const end = out + result.elements();
    if (input.is_length) std::fill(out, end, static_cast<int32_t>(width));
    for (int64_t sample = 0; out != end && !input.is_length; sample = (sample + 1) % size(Split::train))
      for (const int32_t id : input.ids(train_.pairs, pair_of(Split::train, sample)))
        if (out != end) *out++ = id;
    return result;
  };
  std::map<std::string, Tensor> tensors;
  for (const auto& input : kInputs) tensors[input.name] = full(input, input.is_source ? longest().source : longest().target);
  return batch_of(std::move(tensors));
}

}  // namespace sluice::data
