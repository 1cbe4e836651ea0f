#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "parallel/partition.h"

namespace sluice::parallel {

/// What the nodes [first, end) take as stage `stage`: its seconds a micro-batch, or nothing when they cannot be that stage. More nodes must
/// never take less.
using StageSeconds = std::function<std::optional<double>(int stage, int first, int end)>;

/// The cut whose slowest stage is fastest, exactly: of all cuts of `nodes` into `stages` there is none with a smaller maximum of `seconds`.
/// Nothing when no cut has only possible stages.
///
/// For a limit, stages that take as many nodes as they can under it, one after the other, mostly find a cut; where they do not, all
/// places where a stage may begin are gone through. The limit is halved towards the least, then lowered to just below the slowest
/// stage found until there is no cut left.
/// Cost    some dozens of passes of O(stages log nodes) calls, near the least limit O(nodes) more.
std::optional<Partition> fastest_cut(int nodes, int stages, const StageSeconds& seconds);

/// Of the cuts whose stages all keep to `limit` the most even one: with the least sum of squares of the stages' seconds. Nothing when there
/// is none.
/// Cost    O(stages nodes^2) calls.
std::optional<Partition> most_even_cut(int nodes, int stages, const StageSeconds& seconds, double limit);

/// Visits every cut of `nodes` into `stages`.
void for_each_cut(int nodes, int stages, const std::function<void(const Partition&)>& visit);

/// How many cuts there are; `cap` + 1 when there are more than `cap`.
int64_t cut_count(int nodes, int stages, int64_t cap);

}  // namespace sluice::parallel
