#pragma once
#include <set>
#include <vector>

#include "parallel/run/device_ranks.h"
#include "parallel/run/gpu_link.h"

namespace sluice::parallel {

/// The channels of a program between devices of different ranks.
std::set<ChannelEnds> channels_between_ranks(const Program& program, const DeviceRanks& ranks);

/// Refuses, on all ranks alike, what one of them cannot use: one that could not make its end of a communicator would leave the others waiting
/// in NCCL.
/// Errors  UsageError when one has no usable NCCL, or another version than the root.
void require_one_nccl(Group& group);

/// Gives each of the channels that `links` lacks a communicator of NCCL of its own, from its sender, rank 0, to its receiver, rank 1, and
/// connects it. All ranks call it together with the same channels, after require_one_nccl, on a thread that is the only one to call NCCL
/// meanwhile, and while nothing runs. `devices` are those of the whole job.
///
/// One communicator a directed pair, because the operations of one run one after the other: in a shared one a receive that waits for an
/// activation would hold up the gradient that goes the other way, though the program is right (`verify`). They are made and connected in
/// one order on all ranks, because both block the calling thread until the other end has come. The group carries the names of communicators.
/// Inside NCCL no wait has a deadline: a rank that waits there for one which fails does not come back.
/// Errors  CommError when a rank does not come within `seconds`, or NCCL fails.
void connect_by_nccl(Group& group, const DeviceRanks& ranks, const std::vector<DevicePtr>& devices, const std::set<ChannelEnds>& channels,
                     double seconds, GpuLinks& links);

}  // namespace sluice::parallel
