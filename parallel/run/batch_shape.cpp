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

BatchShape shape_of(const layers::Graph& graph, const Batch& batch) {
  require(batch.samples >= 1, "batch: needs at least one sample, got ", batch.samples);
  require(static_cast<bool>(batch.load), "batch: needs a function that loads its inputs, got none; batch_of() makes one of tensors");
  BatchShape shape{batch.samples, {}};
  for (const size_t input : read_inputs(graph)) {
    const std::string& name = graph.inputs()[input].name;
    const Tensor sample = batch.load(name, 0, 1);
    require(sample.rank() >= 1 && sample.dim(0) == 1, "batch: needs 1 samples of input '", name, "', got ", sample);
    // The extents may be others than those that are planned for, as of shorter sentences.
    const auto& declared = graph.inputs()[input].sample_shape;
    require(!declared || declared->rank() == sample.rank() - 1, "batch: needs input '", name, "' as [samples] and then ", *declared,
            " as Graph::input declares a sample, got samples of ", sample.shape().without(0), "; the first axis is that of the samples");
    shape.inputs[name] = {sample.shape().without(0), sample.dtype()};
  }
  return shape;
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
