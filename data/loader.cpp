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

}  // namespace

Loader::Loader(DatasetPtr dataset, LoaderOptions options) : dataset_(std::move(dataset)), options_(std::move(options)) {
  require(options_.batch >= 1, "loader: needs a batch of at least 1 sample, got ", options_.batch);
  require(options_.threads >= 0 && options_.ahead >= 0, "loader: needs threads >= 0 and ahead >= 0, got ", options_.threads, " and ",
          options_.ahead);
  const int64_t samples = dataset_->size(Split::train);
  require<DataError>(samples >= options_.batch, "loader: the data has ", samples, " training samples, fewer than the batch of ",
                     options_.batch, "; set a smaller batch or context, or give more data");
  if (options_.inputs.empty()) options_.inputs = dataset_->inputs();
  steps_per_epoch_ = samples / options_.batch;
  for (int i = 0; i < options_.threads; ++i) workers_.emplace_back([this] { work(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  asked_.notify_all();
  for (auto& worker : workers_) worker.join();
}

Batch Loader::make(int64_t step) const {
  const int64_t epoch = step / steps_per_epoch_, first = step % steps_per_epoch_ * options_.batch;
  const Permutation order(dataset_->size(Split::train), random_key(options_.seed, join("shuffle epoch ", epoch)));
  std::vector<int64_t> samples(static_cast<size_t>(options_.batch));
  for (int64_t i = 0; i < options_.batch; ++i) samples[static_cast<size_t>(i)] = order[first + i];
  return load_batch(dataset_, Split::train, epoch, std::move(samples), options_.inputs);
}

void Loader::ask_for(int64_t first, int64_t last) {
  const auto outside = [&](int64_t step) { return step < first || step > last; };
  std::erase_if(slots_, [&](const auto& slot) { return outside(slot.first); });
  std::erase_if(queue_, [&](const auto& entry) { return outside(entry.first); });
  for (int64_t step = first; step <= last; ++step) {
    const auto [slot, is_new] = slots_.try_emplace(step);
    if (!is_new) continue;
    slot->second = std::make_shared<Slot>();
    queue_.emplace_back(step, slot->second);
  }
  std::sort(queue_.begin(), queue_.end());  // by step: after a jump back, the step that is waited for comes first
}

Batch Loader::at(int64_t step) {
  require(step >= 0, "loader: needs a step >= 0, got ", step);
  const auto start = std::chrono::steady_clock::now();
  Batch batch = take(step);
  seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

Batch Loader::take(int64_t step) {
  if (workers_.empty()) return make(step);
  std::unique_lock lock(mutex_);
  ask_for(step, step + options_.ahead);
  asked_.notify_all();
  const std::shared_ptr<Slot> slot = slots_.at(step);
  loaded_.wait(lock, [&] { return slot->done; });
  slots_.erase(step);
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const auto [step, slot] = queue_.front();
    queue_.pop_front();
    lock.unlock();
    try {
      slot->batch = make(step);
    } catch (...) {
      slot->error = std::current_exception();
    }
    lock.lock();
    slot->done = true;
    loaded_.notify_all();
  }
}

std::vector<int64_t> validation_samples(const Dataset& dataset, int64_t limit) {
  const int64_t size = dataset.size(Split::validation);
  const int64_t count = limit > 0 ? std::min(limit, size) : size;
  std::vector<int64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) samples[static_cast<size_t>(i)] = i * size / count;
  return samples;
}

std::vector<Batch> validation_batches(const DatasetPtr& dataset, int64_t batch, int64_t limit) {
  require(batch >= 1, "validation: needs a batch of at least 1 sample, got ", batch);
  const auto samples = validation_samples(*dataset, limit);
  std::vector<Batch> batches;
  for (size_t first = 0; first < samples.size(); first += static_cast<size_t>(batch)) {
    const size_t last = std::min(samples.size(), first + static_cast<size_t>(batch));
    batches.push_back(load_batch(dataset, Split::validation, 0,
                                 {samples.begin() + static_cast<int64_t>(first), samples.begin() + static_cast<int64_t>(last)}, {}));
  }
  return batches;
}

}  // namespace sluice::data
