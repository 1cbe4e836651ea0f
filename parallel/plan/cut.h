#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "parallel/program/partition.h"

namespace sluice::parallel {

/// What the nodes [first, end) take as stage `stage`: its seconds a micro-batch, or nothing when they cannot be that stage.
using StageSeconds = std::function<std::optional<double>(int stage, int first, int end)>;

/// The cut whose slowest stage is fastest, exactly where more nodes never take less and what cannot be a stage cannot be part of one: then
/// of all cuts of `nodes` into `stages` there is none with a smaller maximum of `seconds`. Where they do, it may miss the fastest cut, or
/// find none. Nothing when it finds no cut that has only possible stages.
///
/// For a limit, stages that take as many nodes as they can under it, one after the other, mostly find a cut; where they do not, all
/// places where a stage may begin are gone through. The limit is halved towards the least, then lowered to just below the slowest
/// stage found until there is no cut left.
/// Cost    some dozens of passes of O(stages log nodes) calls, near the least limit O(nodes) more.
std::optional<Partition> fastest_cut(int nodes, int stages, const StageSeconds& seconds);

/// A time that `seconds` is never less than, of the same nodes or of more.
using LeastSeconds = std::function<double(int stage, int first, int end)>;

/// The cut whose slowest stage is fastest, exactly whatever `seconds` are, and of those the most even one: with the least sum of squares of
/// the stages' seconds. Nothing when no cut has only possible stages.
/// Cost    O(stages nodes^2) calls; fewer where `least` is near.
std::optional<Partition> best_cut(int nodes, int stages, const StageSeconds& seconds, const LeastSeconds& least);

/// Visits every cut of `nodes` into `stages`.
void for_each_cut(int nodes, int stages, const std::function<void(const Partition&)>& visit);

/// How many cuts there are; `cap` + 1 when there are more than `cap`.
int64_t cut_count(int nodes, int stages, int64_t cap);

}  // namespace sluice::parallel
