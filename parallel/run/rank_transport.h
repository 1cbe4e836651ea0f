#pragma once
#include <memory>

#include "parallel/run/device_ranks.h"
#include "parallel/run/transport.h"

namespace sluice::parallel {

/// Devices of several ranks, for one run: what goes to a device of another rank goes as bytes through the group, straight from the memory of
/// the sender into the room of the receiver; all else goes the `local` way. A gradient that a module left out is an empty message.
/// close() also aborts the group: a run that fails ends the job.
/// The group lives longer. `run`  as in label_of(). What a failed run left on its way is never freed.
/// Errors  UsageError for more devices a rank than the group has channels, for tensors that are not on a CPU device, and for a receive
///         whose shape nobody knows before.
std::unique_ptr<Transport> make_rank_transport(Group& group, const DeviceRanks& ranks, std::unique_ptr<Transport> local, uint8_t run = 0);

}  // namespace sluice::parallel
