#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// The names that `make_schedule` knows, for help texts and errors.
const std::vector<std::string>& schedule_names();

/// How many stages each device holds under a named schedule: `virtual_stages` for interleaved and forward-only, 2 for zb-v (given
/// as 1 or 2), 1 for the others.
/// Errors  UsageError for an unknown name (the nearest is named) and for a number that the schedule cannot have.
int stages_per_device(std::string_view name, int virtual_stages);

/// The device of each stage under a named schedule: stage s on device s % devices, for zb-v a V: device d holds d and 2 * devices - 1 - d.
/// Errors  as stages_per_device, and devices < 1.
std::vector<int> stage_placement(std::string_view name, int devices, int virtual_stages = 1);

/// Builds a named schedule of p devices for any micro_batches >= 1, also fewer than stages. A is what the forward of one micro-batch
/// leaves on a device; bubbles are (idle seconds of a step) for stages of equal cost; F, I, W seconds a device, B = I + W.
///   gpipe         all F, then all B. Bubble (p-1)(F+B); keeps M A. arXiv 1811.06965.
///   1f1b          min(p-1-d, M) F, then F and B in turns. Bubble (p-1)(F+B); keeps min(p-d, M) A. arXiv 1806.03377.
///   interleaved   v stages a device in groups of p micro-batches; with v = 1 it is 1f1b.
///                 Bubble (p-1)(F+B)/v; keeps p A (1 + (p-1)/(p v)). arXiv 2104.04473.
///   zb-h1         1f1b with B split and W put off until p micro-batches wait for theirs. Bubble (p-1)(F+I-W); keeps p A. arXiv 2401.10241.
///   zb-v          two stages a device, placed as a V. Bubble (p-1) F/2 when F = I = W; keeps p A. arXiv 2405.15362.
///   forward-only  the forwards alone, deepest stage first: evaluation and generation.
/// Errors  UsageError as stage_placement, and for micro_batches < 1.
Schedule make_schedule(std::string_view name, int devices, int micro_batches, int virtual_stages = 1);

/// The same on stages that have their places, as those of a training plan have. forward-only takes any placement; every device needs
/// a stage. Errors  UsageError for a schedule of another placement, naming both.
Schedule make_schedule(std::string_view name, std::vector<int> device_of_stage, int micro_batches);

}  // namespace sluice::parallel
