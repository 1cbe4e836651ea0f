#pragma once
#include <cstdint>
#include <functional>
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

/// Of the inputs that a node of the graph reads. Loads the first sample of each, and calls `see`, if given, with its input's name and it.
/// Errors  UsageError when the batch gives another number of samples; what `load` throws.
BatchShape shape_of(const layers::Graph& graph, const Batch& batch,
                    const std::function<void(const std::string& input, const Tensor& sample)>& see = {});

/// Samples first .. first + count - 1 of an input. Errors  UsageError when they are not so many; what `load` throws.
Tensor load(const Batch& batch, const std::string& input, int64_t first, int64_t count);

/// Errors  UsageError naming the input when loaded samples have another shape or dtype than `shape` says, for which the run was verified.
void require_planned_shape(const BatchShape& shape, const std::string& input, int64_t first, const Tensor& loaded);

/// A mini-batch that exists in numbers only.
Batch meta_batch(const BatchShape& shape);

/// The same, as the graph declares its inputs. Errors  as declared_shape().
Batch meta_batch(const layers::Graph& graph, int64_t samples);

}  // namespace sluice::parallel
