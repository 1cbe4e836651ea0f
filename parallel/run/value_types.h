#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/precision.h"
#include "layers/graph.h"
#include "layers/value_type.h"
#include "parallel/run/batch_shape.h"

namespace sluice::parallel {

/// Shapes and dtypes of a graph's values before they are computed, so that a receiver can make room for them. Nothing for a value whose module
/// looks at elements, or is wrong about its inputs: the step says so.
/// Threads  one.
class ValueTypes {
 public:
  using List = std::vector<std::optional<layers::ValueType>>;  ///< by value
  /// The graph lives as long as this.
  ValueTypes(const layers::Graph& graph, Precision precision) : graph_(graph), working_(working_dtype(precision)) {}

  /// Of `count` samples of a mini-batch of this shape, in training or in evaluation, where a module may make other shapes. The latest ones are
  /// kept, so that asking again costs next to nothing.
  std::shared_ptr<const List> of(const BatchShape& shape, int64_t count, bool training);

 private:
  using Inputs = std::map<std::string, BatchShape::Input>;
  struct Kept {
    Inputs inputs;
    int64_t count;
    bool training;
    std::shared_ptr<const List> types;
  };
  std::optional<layers::ValueType> type_of(const layers::Graph::Node& node, const List& known, bool training) const;

  const layers::Graph& graph_;
  const DType working_;
  std::deque<Kept> kept_;  ///< the latest first
};

}  // namespace sluice::parallel
