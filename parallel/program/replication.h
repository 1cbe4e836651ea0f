#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// How many pipelines of the same stages train side by side, and in which order the gradients of all micro-batches are added up.
///
/// Micro-batches are numbered through the mini-batch, and each replica runs a range of them; stages are numbered through the replicas, those
/// of replica r of a partition into S stages from r S on.
/// The gradient of a parameter is a sum over fold blocks, which are ranges of micro-batches as well: a left fold within each block, and the
/// tree of TreeSum over blocks. A replica has whole blocks, and those of one subtree, so the sum is the same bits for any number of replicas.
/// The number of blocks is, like that of micro-batches, part of what the answer is.
struct Replication {
  int replicas = 1;
  int fold_blocks = 1;
  /// Of several replicas each runs the optimizer on a part of every stage's parameters, whose states only it has, and sends the others the
  /// new weights. Else all do so on all parameters, with states of their own, and send each other sums of gradients.
  bool shards_optimizer = true;

  bool shards() const { return replicas > 1 && shards_optimizer; }
  bool operator==(const Replication&) const = default;
};

/// Consecutive micro-batches.
struct MicroBatchRange {
  int first = 0, end = 0;
  int count() const { return end - first; }
  bool operator==(const MicroBatchRange&) const = default;
};

/// Part number `part` of `micro_batches` cut into `parts`: from floor(part M / parts) on. There may be none in it.
MicroBatchRange part_of(int micro_batches, int part, int parts);
/// The number of the part that a micro-batch is in.
int part_with(int micro_batch, int micro_batches, int parts);

/// Why numbers of replicas and blocks do not belong together, and the cure; empty when they do.
std::string fault_of(const Replication& replication);

/// Which devices of a group a replica has: consecutive ones, or replica r of R the devices r, r + R, r + 2 R, ..., so that those of a stage's
/// replicas are consecutive.
enum class ReplicaDevices { together, apart };
std::string_view name_of(ReplicaDevices devices);  ///< "together" or "apart"
std::ostream& operator<<(std::ostream& out, ReplicaDevices devices);

/// The number in the group of a replica's device number `device`, where each of `replicas` has so many.
int device_of_replica(ReplicaDevices which, int device, int replica, int replicas, int devices_of_replica);

/// The schedule of all replicas, of each one's own: of as many devices and stages each, and of the micro-batches that part_of gives it.
/// Stages are numbered through the replicas.
/// Errors  UsageError for schedules of other stages, devices or micro-batches.
Schedule replicated(const std::vector<Schedule>& replicas, int micro_batches, ReplicaDevices which = ReplicaDevices::together);

/// The sum of parts that come in their order, by a binary tree over their numbers that does not depend on how many there are before or
/// behind: two neighbours, then two of these pairs, and so on; what is left over at the end is added from its end on. So the sum of a run of
/// 2^k parts that begins at a multiple of 2^k is one node of the tree, and may be made elsewhere.
template <class Sum>
class TreeSum {
 public:
  /// `add(a, b)` is the sum of a and b, which come before it in this order.
  template <class Add>
  void push(Sum part, Add add) {
    int level = 0;
    for (; !open_.empty() && open_.back().level == level; ++level) {
      part = add(std::move(open_.back().sum), std::move(part));
      open_.pop_back();
    }
    open_.push_back({level, std::move(part)});
  }

  /// Of all parts, at least one.
  template <class Add>
  Sum take(Add add) {
    Sum sum = std::move(open_.back().sum);
    open_.pop_back();
    for (; !open_.empty(); open_.pop_back()) sum = add(std::move(open_.back().sum), std::move(sum));
    return sum;
  }

  bool empty() const { return open_.empty(); }

 private:
  struct Open {
    int level;
    Sum sum;
  };
  std::vector<Open> open_;  ///< from the highest level to the lowest
};

}  // namespace sluice::parallel
