#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// The orders of work that have a name; make_schedule says what each of them is.
enum class NamedSchedule { gpipe, one_f_one_b, interleaved, zb_h1, zb_v };

/// All of them, in the order in which help texts list them.
inline constexpr std::array kNamedSchedules{NamedSchedule::gpipe, NamedSchedule::one_f_one_b, NamedSchedule::interleaved,
                                            NamedSchedule::zb_h1, NamedSchedule::zb_v};

std::string_view name_of(NamedSchedule schedule);  ///< "gpipe", "1f1b", "interleaved", "zb-h1" or "zb-v"
std::ostream& operator<<(std::ostream& out, NamedSchedule schedule);

/// The schedule of a word as configs write it. Errors  UsageError for another word (naming the nearest).
NamedSchedule schedule_named(std::string_view word);

/// How many stages each device holds under a named schedule: `virtual_stages` for interleaved, 2 for zb-v (given as 1 or 2), 1 for the
/// others.
/// Errors  UsageError for a number that the schedule cannot have.
int stages_per_device(NamedSchedule schedule, int virtual_stages);

/// The device of each stage under a named schedule: stage s on device s % devices, for zb-v a V: device d holds d and 2 * devices - 1 - d.
/// Errors  as stages_per_device, and devices < 1.
std::vector<int> stage_placement(NamedSchedule schedule, int devices, int virtual_stages = 1);

/// Builds a named schedule of p devices for any micro_batches >= 1, also fewer than stages. A is what the forward of one micro-batch
/// leaves on a device; bubbles are (idle seconds of a step) for stages of equal cost; F, I, W seconds a device, B = I + W.
///   gpipe        all F, then all B. Bubble (p-1)(F+B); keeps M A. arXiv 1811.06965.
///   1f1b         min(p-1-d, M) F, then F and B in turns. Bubble (p-1)(F+B); keeps min(p-d, M) A. arXiv 1806.03377.
///   interleaved  v stages a device in groups of p micro-batches; with v = 1 it is 1f1b.
///                Bubble (p-1)(F+B)/v; keeps p A (1 + (p-1)/(p v)). arXiv 2104.04473.
///   zb-h1        1f1b with B split and W put off until p micro-batches wait for theirs. Bubble (p-1)(F+I-W); keeps p A. arXiv 2401.10241.
///   zb-v         two stages a device, placed as a V. Bubble (p-1) F/2 when F = I = W; keeps p A. arXiv 2405.15362.
/// Errors  UsageError as stage_placement, and for micro_batches < 1.
Schedule make_schedule(NamedSchedule schedule, int devices, int micro_batches, int virtual_stages = 1);

/// The same on stages that have their places, as those of a training plan have; every device needs a stage.
/// Errors  UsageError for a schedule of another placement, naming both.
Schedule make_schedule(NamedSchedule schedule, std::vector<int> device_of_stage, int micro_batches);

/// The forwards alone, deepest stage first: evaluation and generation. Takes any placement in which every device has a stage.
/// Errors  UsageError for another placement and for micro_batches < 1.
Schedule forward_schedule(std::vector<int> device_of_stage, int micro_batches);

}  // namespace sluice::parallel
