#include "data/tensor_dataset.h"

#include <cstring>

#include "core/error.h"

namespace sluice::data {

namespace {

TensorDataset::Inputs on_the_host(TensorDataset::Inputs inputs) {
  for (auto& [name, tensor] : inputs) {
    require(tensor.defined() && tensor.rank() >= 1, "tensor dataset: needs samples as axis 0 of '", name, "', got ",
            tensor.defined() ? join(tensor) : "no tensor");
    const auto& first = *inputs.begin();
    require(tensor.dim(0) == first.second.dim(0), "tensor dataset: needs as many samples of '", name, "' as of '", first.first, "', ",
            first.second.dim(0), ", got ", tensor.dim(0));
    tensor = tensor.to(default_device()).contiguous();
  }
  return inputs;
}

std::string names(const TensorDataset::Inputs& inputs) {
  std::string all;
  for (const auto& [name, tensor] : inputs) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "none in this split" : all;
}

}  // namespace

TensorDataset::TensorDataset(Inputs train, Inputs validation)
    : train_(on_the_host(std::move(train))), validation_(on_the_host(std::move(validation))) {
  require(!train_.empty(), "tensor dataset: needs at least one input to train on, got none");
  for (const auto& [name, tensor] : validation_) {
    const auto found = train_.find(name);
    require(found != train_.end(), "tensor dataset: needs the inputs of training in the validation split, got '", name, "' too");
    const Tensor& of_training = found->second;
    require(of_training.dtype() == tensor.dtype() && of_training.shape().without(0) == tensor.shape().without(0), "tensor dataset: needs '",
            name, "' of the validation split as in training, ", of_training, ", got ", tensor);
  }
  for (const auto& [name, tensor] : train_)
    require(validation_.empty() || validation_.contains(name), "tensor dataset: needs '", name, "' in the validation split too; add it");
}

std::vector<std::string> TensorDataset::inputs() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : train_) names.push_back(name);
  return names;
}

int64_t TensorDataset::size(Split split) const {
  const Inputs& inputs = split == Split::train ? train_ : validation_;
  return inputs.empty() ? 0 : inputs.begin()->second.dim(0);
}

Tensor TensorDataset::load(const std::string& input, Split split, [[maybe_unused]] int64_t epoch, std::span<const int64_t> samples) const {
  const Inputs& inputs = split == Split::train ? train_ : validation_;
  const auto found = inputs.find(input);
  require(found != inputs.end(), "data: the model asks for input '", input, "'; the tensor dataset has ", names(inputs));
  const Tensor& all = found->second;
  const int64_t count = all.dim(0), row = count > 0 ? all.bytes() / count : 0;
  const Tensor rows = empty(all.shape().with(0, static_cast<int64_t>(samples.size())), all.dtype());
  auto* out = static_cast<std::byte*>(rows.data());
  for (const int64_t sample : samples) {
    require(sample >= 0 && sample < count, "tensor dataset: needs a sample from 0 to ", count - 1, ", got ", sample);
    std::memcpy(out, static_cast<const std::byte*>(all.data()) + sample * row, static_cast<size_t>(row));
    out += row;
  }
  return rows;
}

}  // namespace sluice::data
