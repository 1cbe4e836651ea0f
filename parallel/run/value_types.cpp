#include "parallel/run/value_types.h"

#include <algorithm>

namespace sluice::parallel {

using layers::ValueType;

std::shared_ptr<const ValueTypes::List> ValueTypes::of(const Batch& batch, int64_t first, int64_t count) {
  if (const auto found = known_.find(count); found != known_.end()) return found->second;
  List types;
  for (int input = 0; input < static_cast<int>(graph_.inputs().size()); ++input) types.push_back(type_of(input, batch, first, count));
  for (const auto& node : graph_.nodes()) types.push_back(type_of(node, types));
  auto list = std::make_shared<const List>(std::move(types));
  if (has_all_inputs()) known_[count] = list;
  return list;
}

bool ValueTypes::has_all_inputs() const {
  return std::ranges::all_of(graph_.inputs(), [](const auto& input) { return input.sample_shape.has_value(); });
}

std::optional<ValueType> ValueTypes::type_of(int input, const Batch& batch, int64_t first, int64_t count) const {
  const auto& [name, sample_shape, dtype] = graph_.inputs()[input];
  if (sample_shape) return ValueType::of_samples(*sample_shape, dtype, count);
  try {
    const Tensor loaded = batch.load(name, first, count);
    return ValueType{loaded.shape(), loaded.dtype()};
  } catch (const std::exception&) {  // the stage that needs it says why
    return std::nullopt;
  }
}

std::optional<ValueType> ValueTypes::type_of(const layers::Graph::Node& node, const List& known) const {
  std::vector<ValueType> inputs;
  for (const int value : node.inputs)
    if (known[value]) inputs.push_back(*known[value]);
  if (inputs.size() < node.inputs.size()) return std::nullopt;
  try {
    return layers::output_type(*node.module, inputs, working_);
  } catch (const std::exception&) {  // the stage that runs it says what is wrong
    return std::nullopt;
  }
}

}  // namespace sluice::parallel
