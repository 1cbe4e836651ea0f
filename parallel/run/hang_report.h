#pragma once
#include <optional>
#include <string>
#include <vector>

#include "parallel/program/program.h"

namespace sluice::parallel {

/// Says why a program does not go on: for each device the last action that it has finished and the one that it is in, what that one
/// waits for, from which stage and device, and then the cycle of waits, or the device that holds up the others.
/// `finished[d]` is the number of finished actions of device d, whose name is `names[d]`; nothing where that is not known here. Takes damaged
/// programs, too: they are what hangs.
/// Threads  pure.
std::string hang_report(const Program& program, const Topology& topology, const std::vector<std::string>& names,
                        const std::vector<std::optional<size_t>>& finished);

}  // namespace sluice::parallel
