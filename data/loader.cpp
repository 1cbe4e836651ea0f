#include "data/loader.h"

#include <algorithm>

#include "core/steady_clock.h"

namespace sluice::data {

namespace {

/// Samples of one input of a mini-batch that are there.
struct Ready {
  SampleRange range;
  Tensor samples;
};

/// A batch of the given samples; what is prefetched is loaded now, the rest when asked for.
Batch load_batch(const DatasetPtr& dataset, Split split, int64_t epoch, std::vector<int64_t> samples, const Prefetched& prefetched) {
  const auto count = static_cast<int64_t>(samples.size());
  auto load_samples = [=, samples = std::move(samples)](const std::string& input, SampleRange range) {
    const auto wanted = std::span(samples).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
    const Tensor loaded = dataset->load(input, split, epoch, wanted);
    const bool fits = loaded.defined() && loaded.rank() >= 1 && loaded.dim(0) == range.end - range.begin;
    require(fits, "data set: load(\"", input, "\") was asked for ", range.end - range.begin,
            " samples, needs to give a tensor of as many along its ", "first axis, and gave ",
            loaded.defined() ? join(loaded) : "an empty handle", "; Dataset::load() has the samples' numbers in `samples`");
    return loaded;
  };
  std::map<std::string, Ready> ready;
  for (const auto& input : prefetched.inputs) {
    const SampleRange range = prefetched.part(input, count);
    require(range.begin >= 0 && range.end <= count, "loader: needs LoaderOptions::part() to give samples within 0..", count - 1, " of '",
            input, "', got ", range.begin, "..", range.end - 1);
    if (range.begin < range.end) ready[input] = {range, load_samples(input, range)};
  }
  auto load = [=, ready = std::move(ready)](const std::string& input, int64_t first, int64_t rows) {
    require(first >= 0 && rows >= 0 && first + rows <= count, "batch: needs samples within 0..", count - 1, ", got ", rows, " from ",
            first);
    const auto found = ready.find(input);
    if (found == ready.end() || first < found->second.range.begin || first + rows > found->second.range.end)
      return load_samples(input, {first, first + rows});
    return found->second.samples.slice(0, first - found->second.range.begin, first + rows - found->second.range.begin);
  };
  return {count, std::move(load)};
}

const Dataset& there(const DatasetPtr& dataset) {
  require(dataset != nullptr, "loader: needs a data set, got a null pointer");
  return *dataset;
}

BatchSamplerPtr with_batches(BatchSamplerPtr sampler, int64_t least) {
  require(sampler != nullptr, "loader: needs a sampler, got a null pointer");
  require(sampler->batches_per_epoch() >= least, "loader: needs a sampler of at least ", least, " mini-batches an epoch, got ",
          sampler->batches_per_epoch(), "; give it samples, or smaller mini-batches");
  return sampler;
}

std::vector<int64_t> samples_of(const BatchSampler& sampler, int64_t epoch, int64_t number) {
  auto samples = sampler.samples(epoch, number);
  require(!samples.empty(), "loader: needs a sampler that gives every mini-batch at least one sample, got none for mini-batch ", number,
          " of epoch ", epoch, "; leave it out of batches_per_epoch()");
  return samples;
}

Prefetched prefetched_of(const LoaderOptions& options, const Dataset& dataset) {
  const auto all = [](const std::string&, int64_t samples) { return SampleRange{0, samples}; };
  return {options.inputs.value_or(dataset.inputs()), options.part ? options.part : all};
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
      sampler_(with_batches(std::move(sampler), 1)),
      prefetched_(prefetched_of(options, there(dataset_))),
      prefetcher_([this](int64_t step) { return make(step); }, options.threads, options.ahead) {}

Batch Loader::make(int64_t step) const {
  const int64_t epoch = step / steps_per_epoch(), number = step % steps_per_epoch();
  return load_batch(dataset_, Split::train, epoch, samples_of(*sampler_, epoch, number), prefetched_);
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
    : ValidationLoader(dataset, sequential_sampler(there(dataset), options.batch, limit), options) {}

ValidationLoader::ValidationLoader(DatasetPtr dataset, BatchSamplerPtr sampler, LoaderOptions options)
    : dataset_(std::move(dataset)),
      sampler_(with_batches(std::move(sampler), 0)),
      prefetched_(prefetched_of(options, there(dataset_))),
      prefetcher_([this](int64_t number) { return make(number); }, options.threads, options.ahead, sampler_->batches_per_epoch()) {}

Batch ValidationLoader::make(int64_t number) const {
  return load_batch(dataset_, Split::validation, 0, samples_of(*sampler_, 0, number), prefetched_);
}

Batch ValidationLoader::at(int64_t number) {
  require(number >= 0 && number < size(), "validation: needs a batch 0..", size() - 1, ", got ", number);
  return prefetcher_.at(number);
}

}  // namespace sluice::data
