#include "data/loader.h"

#include <algorithm>
#include <chrono>

#include "core/random.h"
#include "data/permutation.h"

namespace sluice::data {

namespace {

/// A batch of the given samples; the inputs of `prefetched` are loaded now, others when asked for.
Batch load_batch(const DatasetPtr& dataset, Split split, int64_t epoch, std::vector<int64_t> samples,
                 const std::vector<std::string>& prefetched) {
  std::map<std::string, Tensor> ready;
  for (const auto& input : prefetched) ready[input] = dataset->load(input, split, epoch, samples);
  const auto count = static_cast<int64_t>(samples.size());
  auto load = [=, ready = std::move(ready), samples = std::move(samples)](const std::string& input, int64_t first, int64_t rows) {
    require(first >= 0 && rows >= 0 && first + rows <= count, "batch: needs samples within 0..", count - 1, ", got ", rows, " from ",
            first);
    const auto found = ready.find(input);
    if (found != ready.end()) return found->second.slice(0, first, first + rows);
    return dataset->load(input, split, epoch, std::span(samples).subspan(static_cast<size_t>(first), static_cast<size_t>(rows)));
  };
  return {count, std::move(load)};
}

LoaderOptions complete(LoaderOptions options, const Dataset& dataset) {
  require(options.batch >= 1, "loader: needs a batch of at least 1 sample, got ", options.batch);
  if (options.inputs.empty()) options.inputs = dataset.inputs();
  return options;
}

int64_t full_batches(const Dataset& dataset, const LoaderOptions& options) {
  const int64_t samples = dataset.size(Split::train);
  require<DataError>(samples >= options.batch, "loader: the data has ", samples, " training samples, fewer than the batch of ",
                     options.batch, "; set a smaller batch or context, or give more data");
  return samples / options.batch;
}

}  // namespace

Loader::Loader(DatasetPtr dataset, LoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(complete(std::move(options), *dataset_)),
      steps_per_epoch_(full_batches(*dataset_, options_)),
      prefetcher_([this](int64_t step) { return make(step); }, options_.threads, options_.ahead) {}

Batch Loader::make(int64_t step) const {
  const int64_t epoch = step / steps_per_epoch_, first = step % steps_per_epoch_ * options_.batch;
  const Permutation order(dataset_->size(Split::train), random_key(options_.seed, join("shuffle epoch ", epoch)));
  std::vector<int64_t> samples(static_cast<size_t>(options_.batch));
  for (int64_t i = 0; i < options_.batch; ++i) samples[static_cast<size_t>(i)] = order[first + i];
  return load_batch(dataset_, Split::train, epoch, std::move(samples), options_.inputs);
}

Batch Loader::at(int64_t step) {
  require(step >= 0, "loader: needs a step >= 0, got ", step);
  const auto start = std::chrono::steady_clock::now();
  Batch batch = prefetcher_.at(step);
  seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

std::vector<int64_t> validation_samples(const Dataset& dataset, int64_t limit) {
  const int64_t size = dataset.size(Split::validation);
  const int64_t count = limit > 0 ? std::min(limit, size) : size;
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) samples[static_cast<size_t>(i)] = i * size / count;
  return samples;
}

ValidationLoader::ValidationLoader(DatasetPtr dataset, LoaderOptions options, int64_t limit)
    : dataset_(std::move(dataset)),
      options_(complete(std::move(options), *dataset_)),
      samples_(validation_samples(*dataset_, limit)),
      batches_((static_cast<int64_t>(samples_.size()) + options_.batch - 1) / options_.batch),
      prefetcher_([this](int64_t number) { return make(number); }, options_.threads, options_.ahead, batches_) {}

Batch ValidationLoader::make(int64_t number) const {
  const int64_t first = number * options_.batch, count = std::min(options_.batch, static_cast<int64_t>(samples_.size()) - first);
  const auto begin = samples_.begin() + first;
  return load_batch(dataset_, Split::validation, 0, {begin, begin + count}, options_.inputs);
}

Batch ValidationLoader::at(int64_t number) {
  require(number >= 0 && number < batches_, "validation: needs a batch 0..", batches_ - 1, ", got ", number);
  return prefetcher_.at(number);
}

}  // namespace sluice::data
