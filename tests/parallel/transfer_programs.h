#pragma once
#include <cstdint>

#include "parallel/program/program.h"
#include "parallel/schedule/named.h"

/// Programs whose transfers a TransferRun runs.
namespace sluice::testing {

/// Of five nodes, two of which read the first one's value too, with a tied parameter, on four devices.
parallel::Program skip_program(parallel::NamedSchedule schedule, int micro_batches);
/// Of two nodes on two devices.
parallel::Program pair_program(int micro_batches);
/// Any nodes, schedule, window and recomputation, on 1 to 8 devices.
parallel::Program random_program(uint64_t seed);

}  // namespace sluice::testing
