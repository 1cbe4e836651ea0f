#include "data/map_dataset.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "core/error.h"
#include "core/ops/concat.h"
#include "core/random.h"
#include "core/suggestion.h"

namespace sluice::data {

namespace {

std::map<std::string, MappedInput> in_place(std::map<std::string, SampleFunction> functions) {
  std::map<std::string, MappedInput> inputs;
  for (auto& [name, function] : functions) inputs[name] = {name, std::move(function)};
  return inputs;
}

SampleView view_of(Split split, int64_t epoch, int64_t sample, uint64_t seed) {
  SampleView view{.split = split, .epoch = split == Split::train ? epoch : 0, .sample = sample};
  view.key = random_key(seed, join(split == Split::train ? "train " : "validation ", view.epoch, " ", sample));
  return view;
}

}  // namespace

MapDataset::MapDataset(std::shared_ptr<const Dataset> source, std::map<std::string, SampleFunction> functions, uint64_t seed)
    : MapDataset(std::move(source), in_place(std::move(functions)), seed) {}

MapDataset::MapDataset(std::shared_ptr<const Dataset> source, std::map<std::string, MappedInput> inputs, uint64_t seed)
    : source_(std::move(source)), inputs_(std::move(inputs)), seed_(seed) {
  require(source_ != nullptr, "map dataset: needs a data set to map, got a null pointer");
  const auto known = source_->inputs();
  for (const auto& [name, mapped] : inputs_) {
    require(std::ranges::find(known, mapped.from) != known.end(), "map dataset: needs an input of the source to make '", name,
            "' of, got '", mapped.from, "'", suggestion(mapped.from, known));
    require(static_cast<bool>(mapped.function), "map dataset: needs a function that makes '", name, "', got none");
  }
}

std::vector<std::string> MapDataset::inputs() const {
  std::vector<std::string> names = source_->inputs();
  for (const auto& [name, mapped] : inputs_)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

Tensor MapDataset::load(const std::string& input, Split split, int64_t epoch, std::span<const int64_t> samples) const {
  const auto found = inputs_.find(input);
  if (found == inputs_.end()) return source_->load(input, split, epoch, samples);
  const Tensor values = source_->load(found->second.from, split, epoch, samples);
  std::vector<Tensor> results;
  for (size_t i = 0; i < samples.size(); ++i) {
    results.push_back(mapped(input, values.select(0, static_cast<int64_t>(i)), view_of(split, epoch, samples[i], seed_)));
    require(results.back().shape() == results.front().shape() && results.back().dtype() == results.front().dtype(), "map dataset: needs '",
            input, "' of one shape and dtype for samples that are loaded together, got ", results.front(), " and, of sample ", samples[i],
            ", ", results.back());
  }
  return stack(results, 0);
}

Tensor MapDataset::mapped(const std::string& input, const Tensor& value, const SampleView& view) const {
  const auto where = [&](const std::exception& error) {
    const char* split = view.split == Split::train ? "training" : "validation";
    return join("map dataset: '", input, "' of sample ", view.sample, " of the ", split, " split: ", error.what());
  };
  try {
    return inputs_.at(input).function(value, view).to(default_device());
  } catch (const DataError& error) {
    throw DataError(where(error));
  } catch (const ResourceError& error) {
    throw ResourceError(where(error));
  } catch (const std::bad_alloc&) {  // of the machine, as the next one: no fault of the function
    throw ResourceError(where(ResourceError("the system has no memory left; use smaller batches, or fewer data threads ([data] threads)")));
  } catch (const std::system_error& error) {
    throw ResourceError(where(error));
  } catch (const std::exception& error) {
    throw UsageError(where(error));
  }
}

}  // namespace sluice::data
