#include "parallel/run/batch_shape.h"

#include <set>
#include <vector>

#include "layers/value_type.h"

namespace sluice::parallel {

namespace {

/// The numbers of the inputs that nodes read.
std::set<size_t> read_inputs(const layers::Graph& graph) {
  std::set<size_t> read;
  for (const auto& node : graph.nodes())
    for (const int value : node.inputs)
      if (graph.node_of(value) < 0) read.insert(static_cast<size_t>(value));
  return read;
}

}  // namespace

BatchShape declared_shape(const layers::Graph& graph, int64_t samples) {
  BatchShape shape{samples, {}};
  for (const auto& input : graph.inputs()) {
    require(input.sample_shape.has_value(), "plan: needs the sample shape of input '", input.name,
            "'; give it with Graph::input(name, shape, dtype)");
    shape.inputs[input.name] = {*input.sample_shape, input.dtype};
  }
  return shape;
}

BatchShape shape_of(const layers::Graph& graph, const Batch& batch, const std::function<void(const std::string&, const Tensor&)>& see) {
  require(batch.samples >= 1, "batch: needs at least one sample, got ", batch.samples);
  require(static_cast<bool>(batch.load), "batch: needs a function that loads its inputs, got none; batch_of() makes one of tensors");
  BatchShape shape{batch.samples, {}};
  for (const size_t input : read_inputs(graph)) {
    const std::string& name = graph.inputs()[input].name;
    const Tensor sample = load(batch, name, 0, 1);
    // The extents may be others than those that are planned for, as of shorter sentences.
    const auto& declared = graph.inputs()[input].sample_shape;
    require(!declared || declared->rank() == sample.rank() - 1, "batch: needs input '", name, "' as [samples] and then ", *declared,
            " as Graph::input declares a sample, got samples of ", sample.shape().without(0), "; the first axis is that of the samples");
    shape.inputs[name] = {sample.shape().without(0), sample.dtype()};
    if (see) see(name, sample);
  }
  return shape;
}

Tensor load(const Batch& batch, const std::string& input, int64_t first, int64_t count) {
  Tensor loaded = batch.load(input, first, count);
  require(loaded.rank() >= 1 && loaded.dim(0) == count, "batch: needs ", count, " samples of input '", input, "', got ", loaded);
  return loaded;
}

void require_planned_shape(const BatchShape& shape, const std::string& input, int64_t first, const Tensor& loaded) {
  const auto& [sample_shape, dtype] = shape.inputs.at(input);
  const Shape found = loaded.shape().without(0);
  require(found == sample_shape && loaded.dtype() == dtype, "batch: needs all samples of input '", input,
          "' in the shape of the first one, ", name_of(dtype), ' ', sample_shape, ", got ", name_of(loaded.dtype()), ' ', found,
          " for samples ", first, " to ", first + loaded.dim(0) - 1,
          "; pad the mini-batch to one length, and not each range that is loaded to its own");
}

Batch meta_batch(const BatchShape& shape) {
  const auto host = make_device("meta:0");
  return {shape.samples, [inputs = shape.inputs, host](const std::string& name, int64_t, int64_t count) {
            const auto& [sample_shape, dtype] = inputs.at(name);
            return empty(layers::ValueType::of_samples(sample_shape, dtype, count).shape, dtype, host);
          }};
}

Batch meta_batch(const layers::Graph& graph, int64_t samples) { return meta_batch(declared_shape(graph, samples)); }

}  // namespace sluice::parallel
