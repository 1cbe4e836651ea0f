#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/batch.h"
#include "core/precision.h"
#include "layers/graph.h"
#include "layers/value_type.h"

namespace sluice::parallel {

/// Shapes and dtypes of a graph's values before they are computed, so that a receiver can make room for them. Nothing for a value whose module
/// looks at elements, or is wrong about its inputs: the step says so.
/// Threads  one.
class ValueTypes {
 public:
  using List = std::vector<std::optional<layers::ValueType>>;  ///< by value
  /// The graph lives as long as this.
  ValueTypes(const layers::Graph& graph, Precision precision) : graph_(graph), working_(working_dtype(precision)) {}

  /// Of `count` samples of the mini-batch from `first` on. Known once for each number of samples; for graphs with inputs of unknown shape
  /// those are loaded each time.
  std::shared_ptr<const List> of(const Batch& batch, int64_t first, int64_t count);

 private:
  bool has_all_inputs() const;
  std::optional<layers::ValueType> type_of(int input, const Batch& batch, int64_t first, int64_t count) const;
  std::optional<layers::ValueType> type_of(const layers::Graph::Node& node, const List& known) const;

  const layers::Graph& graph_;
  const DType working_;
  std::map<int64_t, std::shared_ptr<const List>> known_;  ///< by number of samples
};

}  // namespace sluice::parallel
