#pragma once
#include <memory>

#include "parallel/run/device_ranks.h"
#include "parallel/run/gpu_link.h"
#include "parallel/run/transport.h"

namespace sluice::parallel {

/// Devices of several ranks that are GPUs, for one run: what goes to a device of another rank goes over the link of its channel, straight from
/// the memory of the sender into the room of the receiver; all else goes the `local` way. The group carries control messages alone, in the
/// memory of the host.
///
/// The two ends agree before a link is asked. With its send the sender tells how many bytes come, or that its module left the gradient
/// out; with its post the receiver tells how much room it has. Only when an end has heard the other does it begin the transfer on the GPU,
/// both in the order of the channel. So
///   a gradient that was left out takes no bytes, and no receive for it that would take the next tensor;
///   unequal sizes are an error, where NCCL would hang or write past the room;
///   on the GPU an operation waits for the other GPU's kernels alone, never for something that a thread of either rank has yet to do. So a call
///   that waits for the GPU (cudaMalloc, cudaFree) cannot be part of a circle, and no multiprocessor is held for a post that is far away.
/// `receive` and `finish_send` return when the transfer has ended on the GPU, at the latest after their seconds: no stream of a device ever
/// waits for another GPU, and a transfer that hangs is seen in the action that waits for it.
///
/// A thread of the transport begins the transfers. It is the only one that calls the links, and so NCCL, while the run lasts.
/// close() also aborts the group: a run that fails ends the job. When a transfer has not ended by then, links and memory are given up, not
/// freed; no call of NCCL ends it, the process does.
/// The group and the links live longer. `run`  as in label_of().
/// Errors  UsageError for more devices a rank than the group has channels, for a channel without a link, for tensors that are not on a GPU,
///         and for a receive whose shape nobody knows before; CommError for unequal sizes, and what a link throws.
std::unique_ptr<Transport> make_gpu_rank_transport(Group& group, const DeviceRanks& ranks, const GpuLinks& links,
                                                   std::unique_ptr<Transport> local, uint8_t run = 0);

}  // namespace sluice::parallel
