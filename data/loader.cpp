#include "data/loader.h"

#include <algorithm>

#include "core/steady_clock.h"

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

const Dataset& there(const DatasetPtr& dataset) {
  require(dataset != nullptr, "loader: needs a data set, got a null pointer");
  return *dataset;
}

std::vector<std::string> inputs_of(const LoaderOptions& options, const Dataset& dataset) {
  return options.inputs.empty() ? dataset.inputs() : options.inputs;
}

BatchSamplerPtr sequential_sampler(const Dataset& dataset, int64_t batch, int64_t limit) {
  require(batch >= 1, "loader: needs a batch of at least 1 sample, got ", batch);
  return std::make_shared<SequentialSampler>(dataset, Split::validation, validation_samples(dataset, limit),
                                             [batch](int64_t) { return batch; });
}

}  // namespace

Loader::Loader(DatasetPtr dataset, LoaderOptions options)
    : Loader(dataset, std::make_shared<ShuffledSampler>(there(dataset).size(Split::train), options.batch, options.seed), options) {}

Loader::Loader(DatasetPtr dataset, BatchSamplerPtr sampler, LoaderOptions options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      inputs_(inputs_of(options, there(dataset_))),
      prefetcher_([this](int64_t step) { return make(step); }, options.threads, options.ahead) {}

Batch Loader::make(int64_t step) const {
  const int64_t epoch = step / steps_per_epoch(), number = step % steps_per_epoch();
  return load_batch(dataset_, Split::train, epoch, sampler_->samples(epoch, number), inputs_);
}

Batch Loader::at(int64_t step) {
  require(step >= 0, "loader: needs a step >= 0, got ", step);
  const double start = steady_seconds();
  Batch batch = prefetcher_.at(step);
  seconds_waited_ += steady_seconds() - start;
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
    : ValidationLoader(dataset, sequential_sampler(*dataset, options.batch, limit), options) {}

ValidationLoader::ValidationLoader(DatasetPtr dataset, BatchSamplerPtr sampler, LoaderOptions options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      inputs_(inputs_of(options, *dataset_)),
      prefetcher_([this](int64_t number) { return make(number); }, options.threads, options.ahead, sampler_->batches_per_epoch()) {}

Batch ValidationLoader::make(int64_t number) const {
  return load_batch(dataset_, Split::validation, 0, sampler_->samples(0, number), inputs_);
}

Batch ValidationLoader::at(int64_t number) {
  require(number >= 0 && number < size(), "validation: needs a batch 0..", size() - 1, ", got ", number);
  return prefetcher_.at(number);
}

}  // namespace sluice::data
