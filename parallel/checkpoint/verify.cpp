#include "parallel/checkpoint/verify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/file/hash.h"
#include "parallel/checkpoint/layout.h"

namespace sluice::parallel {

namespace {

using Shapes = std::map<std::string, Shape>;

enum class Of { trained, frozen };

Shapes states_of(const layers::Graph& graph, Of which, const Optimizer& optimizer) {
  Shapes shapes;
  for (const auto& parameter : graph.parameters())
    if (parameter.frozen == (which == Of::frozen))
      for (const auto& state : optimizer.states_of(parameter.spec.shape))
        shapes[checkpoint_layout::state_name(parameter.name, state.name)] = state.shape;
  return shapes;
}

Shapes unneeded_states_of(const layers::Graph& graph, const Optimizer& optimizer) {
  Shapes shapes;
  for (const auto& parameter : graph.parameters())
    for (const auto& name : optimizer.unneeded_state_names())
      shapes[checkpoint_layout::state_name(parameter.name, name)] = parameter.spec.shape;
  return shapes;
}

/// The tensors of one kind, which are those of `needed`, and perhaps some of `further`.
checkpoint_layout::TensorParts parts_of_shapes(const Checkpoint& checkpoint, const char* kind, const Shapes& needed,
                                               const Shapes& further = {}) {
  checkpoint_layout::TensorParts parts(checkpoint, kind);
  std::set<std::string> known;
  for (const auto& [name, shape] : needed) parts.require_tensor(name, DType::f32, shape), known.insert(name);
  for (const auto& [name, shape] : further)
    if (parts.tensors().contains(name)) parts.require_tensor(name, DType::f32, shape), known.insert(name);
  parts.require_no_more(known);
  return parts;
}

/// Calls `use` with each tensor, in name order, one at a time in memory.
template <class Use>
void read_each(const checkpoint_layout::TensorParts& parts, Verified& found, const Use& use) {
  for (const auto& [name, entry] : parts.tensors()) {
    const Tensor tensor = empty(entry.shape, entry.dtype);
    parts.read(name, tensor);
    found.tensors += 1;
    found.values += entry.shape.elements();
    use(name, tensor);
  }
}

int64_t count_not_finite(const Tensor& tensor) {
  const float* values = tensor.data<float>();
  return std::count_if(values, values + tensor.shape().elements(), [](float value) { return !std::isfinite(value); });
}

/// A training may remove the checkpoint meanwhile.
int64_t file_bytes(const std::filesystem::path& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  require<DataError>(!error, file.string(), ": cannot read the file: ", error.message(), "; use an older checkpoint");
  return static_cast<int64_t>(bytes);
}

void verify_weights(const Checkpoint& checkpoint, const Shapes& shapes, Verified& found) {
  const auto parts = parts_of_shapes(checkpoint, checkpoint_layout::kModelFile, shapes);
  Hash hash;
  read_each(parts, found, [&](const std::string& name, const Tensor& tensor) {
    checkpoint_layout::check_finite(parts, {{name, tensor}});
    hash.add(tensor.data(), static_cast<size_t>(tensor.bytes()));
  });
  checkpoint_layout::require_weights_hash(checkpoint, hash.text());
}

}  // namespace

Verified verify(const Checkpoint& checkpoint, const layers::Graph& graph, const Optimizer& optimizer) {
  Verified found;
  const Shapes shapes = checkpoint_layout::shapes_of(graph);
  verify_weights(checkpoint, shapes, found);
  Shapes further = unneeded_states_of(graph, optimizer);
  further.merge(states_of(graph, Of::frozen, optimizer));
  const auto states = parts_of_shapes(checkpoint, checkpoint_layout::kOptimizerFile, states_of(graph, Of::trained, optimizer), further);
  read_each(states, found, [&](const std::string&, const Tensor& tensor) { found.not_finite += count_not_finite(tensor); });
  if (optimizer.ema > 0) checkpoint_layout::require_averages(checkpoint);
  if (checkpoint.has_averages) {
    const auto averages = parts_of_shapes(checkpoint, checkpoint_layout::kAverageFile, shapes);
    read_each(averages, found, [&](const std::string& name, const Tensor& tensor) {
      checkpoint_layout::check_finite(averages, {{name, tensor}});
    });
  }
  found.bytes = file_bytes(checkpoint.path_of(checkpoint_layout::kStateFile));
  for (const auto& name : checkpoint.files) found.bytes += file_bytes(checkpoint.path_of(name));
  return found;
}

}  // namespace sluice::parallel
