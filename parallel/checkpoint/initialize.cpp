#include "parallel/checkpoint/initialize.h"

#include <fmt/core.h>

#include "core/file/safetensors.h"
#include "core/ops/copy.h"
#include "parallel/checkpoint/layout.h"

namespace sluice::parallel {

Initialization initialize(const Checkpoint& checkpoint, Trainer& trainer) {
  const auto path = checkpoint_layout::shown_file(checkpoint);
  const SafetensorsFile file(path);
  const auto model = trainer.model();
  Initialization result;
  std::map<std::string, Tensor> loaded;
  result.averages = checkpoint.has_averages;
  for (const auto& [name, tensor] : model) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end()) {
      result.not_there.push_back(name);
    } else if (found->second.shape != tensor.shape() || found->second.dtype != tensor.dtype()) {
      result.other_shapes.push_back({name, tensor.shape(), found->second.shape});
    } else {
      file.read(name, tensor);
      loaded[name] = tensor;
      result.loaded.push_back(name);
    }
  }
  checkpoint_layout::check_finite(path, loaded);
  for (const auto& [name, entry] : file.tensors())
    if (!model.contains(name)) result.without_place.push_back(name);
  require<DataError>(!result.loaded.empty(), path.string(), ": needs at least one of the model's ", model.size(),
                     " parameters and running statistics with its shape, has none; check [model] against the checkpoint's config");
  for (const auto& [name, average] : trainer.averages()) copy(model.at(name), average);
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
