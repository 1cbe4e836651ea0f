#pragma once
#include <string_view>

#include "parallel/program/schedule.h"

namespace sluice::parallel {

/// Refuses orders that are not a step of training: every stage lies on a device, every device has a stage, and each stage runs F and then
/// B, or I and W, of every micro-batch once, on its device, its B and W in ascending order. That no two devices wait for each other is
/// proved later, when the schedule is lowered (verify).
/// `name` is what the message calls the schedule, such as "Plan::schedule".
/// Errors  UsageError naming device, stage and micro-batch.
void require_complete(const Schedule& schedule, std::string_view name);

}  // namespace sluice::parallel
