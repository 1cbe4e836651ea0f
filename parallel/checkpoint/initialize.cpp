#include "parallel/checkpoint/initialize.h"

#include <fmt/core.h>

#include <algorithm>

#include "parallel/checkpoint/layout.h"

namespace sluice::parallel {

Initialization initialize(const Checkpoint& checkpoint, Trainer& trainer) {
  const checkpoint_layout::TensorParts parts(checkpoint, checkpoint_layout::shown_file(checkpoint));
  const auto all = checkpoint_layout::shapes_of(trainer.graph());
  const StateParts places = trainer.state_parts();
  Initialization result;
  std::map<std::string, Tensor> loaded;
  result.averages = checkpoint.has_averages;
  for (const auto& [name, shape] : all) {
    const auto found = parts.tensors().find(name);
    if (found == parts.tensors().end()) {
      result.not_there.push_back(name);
    } else if (found->second.shape != shape || found->second.dtype != DType::f32) {
      result.other_shapes.push_back({name, shape, found->second.shape});
    } else {
      result.loaded.push_back(name);
      if (std::ranges::find(places.model, name, &StatePart::name) == places.model.end()) continue;  // another rank's
      parts.read(name, loaded[name] = empty(shape));
    }
  }
  checkpoint_layout::check_finite(parts, loaded);
  for (const auto& [name, entry] : parts.tensors())
    if (!all.contains(name)) result.without_place.push_back(name);
  require<DataError>(!result.loaded.empty(), checkpoint.folder, ": needs at least one of the model's ", all.size(),
                     " parameters and running statistics with its shape, has none; check [model] against the checkpoint's config");
  const auto put_loaded = [&](const StatePart& part) {
    if (loaded.contains(part.name)) put({{part.name, loaded.at(part.name)}}, {part});
  };
  std::ranges::for_each(places.model, put_loaded);
  std::ranges::for_each(places.averages, put_loaded);  // what is not loaded is as it began, like its average
  trainer.publish_parameters();
  return result;
}

std::string describe(const Initialization& initialization) {
  const auto& [loaded, other_shapes, not_there, without_place, averages] = initialization;
  std::string text = fmt::format("{} of {} tensors loaded{}", loaded.size(), loaded.size() + other_shapes.size() + not_there.size(),
                                 averages ? " from its moving averages" : "");
  for (const auto& [name, model, checkpoint] : other_shapes)
    text += join("\n  left at its initialisation: ", name, ", the model needs ", model, ", the checkpoint has ", checkpoint);
  for (const auto& name : not_there) text += "\n  left at its initialisation: " + name + ", the checkpoint has none";
  for (const auto& name : without_place) text += "\n  without a place in the model: " + name;
  return text;
}

}  // namespace sluice::parallel
