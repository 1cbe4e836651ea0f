#include "parallel/run/value_types.h"

#include <algorithm>

namespace sluice::parallel {

using layers::ValueType;

std::shared_ptr<const ValueTypes::List> ValueTypes::of(const BatchShape& shape, int64_t count, bool training) {
  constexpr size_t kMostKept = 128;  // mini-batches may be of any number of shapes
  const auto is_known = [&](const Kept& kept) { return kept.count == count && kept.training == training && kept.inputs == shape.inputs; };
  if (const auto known = std::ranges::find_if(kept_, is_known); known != kept_.end()) return known->types;
  List types;
  for (const auto& input : graph_.inputs()) {
    const auto found = shape.inputs.find(input.name);  // not of an input that no node reads
    const bool is_there = found != shape.inputs.end();
    types.push_back(is_there ? std::optional(ValueType::of_samples(found->second.sample_shape, found->second.dtype, count)) : std::nullopt);
  }
  for (const auto& node : graph_.nodes()) types.push_back(type_of(node, types, training));
  if (kept_.size() == kMostKept) kept_.pop_back();
  kept_.push_front({shape.inputs, count, training, std::make_shared<const List>(std::move(types))});
  return kept_.front().types;
}

std::optional<ValueType> ValueTypes::type_of(const layers::Graph::Node& node, const List& known, bool training) const {
  std::vector<ValueType> inputs;
  for (const int value : node.inputs)
    if (known[value]) inputs.push_back(*known[value]);
  if (inputs.size() < node.inputs.size()) return std::nullopt;
  try {
    return layers::output_type(*node.module, inputs, working_, training);
  } catch (const std::exception&) {  // the stage that runs it says what is wrong
    return std::nullopt;
  }
}

}  // namespace sluice::parallel
