#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/batch.h"
#include "layers/graph.h"

namespace sluice::parallel {

/// All that the bytes of a run depend on of its mini-batch.
struct BatchShape {
  struct Input {
    Shape sample_shape;  ///< of one sample, without the batch axis
    DType dtype = DType::f32;
    bool operator==(const Input&) const = default;
  };
  int64_t samples = 0;
  std::map<std::string, Input> inputs;  ///< by name

  bool operator==(const BatchShape&) const = default;
};

/// As the graph declares its inputs.
/// Errors  UsageError when an input of the graph has no known shape.
BatchShape declared_shape(const layers::Graph& graph, int64_t samples);

/// Of the inputs that a node of the graph reads. Loads one sample of each.
/// Errors  UsageError when the batch gives another number of samples; what `load` throws.
BatchShape shape_of(const layers::Graph& graph, const Batch& batch);

/// A mini-batch that exists in numbers only.
Batch meta_batch(const BatchShape& shape);

/// The same, as the graph declares its inputs. Errors  as declared_shape().
Batch meta_batch(const layers::Graph& graph, int64_t samples);

}  // namespace sluice::parallel
