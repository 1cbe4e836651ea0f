#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/batch.h"
#include "layers/graph.h"

namespace sluice::testing {

/// Draws that a seed decides.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  /// Any of first .. last.
  int from(int first, int last) { return first + static_cast<int>(random_() % static_cast<uint64_t>(last - first + 1)); }
  bool one_in(int number) { return from(1, number) == 1; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(from(0, static_cast<int>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

struct RandomGraph {
  layers::Graph graph;
  std::string description;  ///< a word a node: "n3=linear4(n1)"
  bool has_shapes = true;   ///< of its inputs; else it can be trained, but not planned
};

/// A trainable DAG of 4 to about 14 small nodes: values with several consumers and of unequal shape, a value twice into one node, products,
/// nodes off the loss path and behind the loss, modules that stop the gradient of all or of one of their inputs, integer inputs, inputs
/// that nobody reads, inputs whose shape is not known, tied parameters (also at nodes without a gradient), statistics (also without a
/// gradient), frozen parameters, dropout, composites, recurrent layers with states and lengths from other nodes.
RandomGraph random_graph(uint64_t seed);

/// A mini-batch for any of these graphs.
Batch random_graph_batch(int64_t samples, uint64_t seed);

}  // namespace sluice::testing
