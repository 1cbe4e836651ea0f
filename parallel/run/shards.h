#pragma once
#include <vector>

#include "core/ops/sums_of_squares.h"
#include "layers/graph.h"
#include "parallel/program/dataflow.h"

namespace sluice::parallel {

/// Consecutive elements of a tensor, row-major.
struct ElementRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const ElementRange&) const = default;
};

/// A part of a parameter.
struct ShardPiece {
  int parameter;  ///< into Graph::parameters()
  ElementRange elements;
};

/// What one replica adds up of a stage's gradients, ascending. No two pieces are of one parameter.
using Shard = std::vector<ShardPiece>;

/// Parameters are cut at multiples of so many elements: at chunks of their sums of squares, so that the norm is the same bits for any number of
/// replicas.
inline constexpr int64_t kShardGrain = 32768;
static_assert(kShardGrain % squares_chunk(DeviceKind::cpu) == 0 && kShardGrain % squares_chunk(DeviceKind::cuda) == 0);

/// The shards of a stage of one replica, one for each replica: all parameters that it owns, cut into equal parts as far as the grain allows:
/// each has less than a grain more or less than its share. Those with as many uses are dealt out together, so that shards are also about
/// equal in the bytes that are sent, of a tied parameter once for each use.
std::vector<Shard> shards_of(const layers::Graph& graph, const Partition& partition, int stage, int replicas);

/// Whether replicas step a part each of a parameter. A frozen one has no shard: each replica has it whole.
inline bool is_sharded(const Replication& replication, const layers::Graph::Parameter& parameter) {
  return replication.shards() && !parameter.frozen;
}

/// Which elements of a parameter are in a shard; none of one that is not.
ElementRange elements_in(const Shard& shard, int parameter);

/// x's elements as a list, or a part of them: a view of a contiguous tensor.
Tensor elements_of(const Tensor& x, const ElementRange& range);

/// Where the sums of squares of gradients stand in a list that every device fills in part, with zeros elsewhere, so that the lists of all
/// devices add up without rounding: a sum for each parameter that one device has as a whole, and sums of chunks for the others.
class NormLayout {
 public:
  /// `kind`  of the devices, or what they stand for.
  NormLayout(const layers::Graph& graph, const Layout& layout, DeviceKind kind);

  int64_t size() const { return size_; }
  int64_t parameters() const { return parameters_; }
  struct Split {
    int parameter;
    int64_t first, chunks;  ///< of the list
  };
  /// Parameters that are cut, ascending.
  const std::vector<Split>& splits() const { return splits_; }
  /// Null for a parameter that is not cut.
  const Split* split(int parameter) const;
  /// The chunks of a piece of a parameter that is cut: where they begin in the list, and how many there are.
  std::pair<int64_t, int64_t> chunks_of(const Split& split, const ElementRange& elements) const;

 private:
  DeviceKind kind_;
  int64_t parameters_, size_;
  std::vector<Split> splits_;
};

}  // namespace sluice::parallel
