#pragma once
#include <set>

#include "core/tensor.h"
#include "parallel/group/group.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

/// Adds a tensor of a CPU device, or an undefined one, to a control message.
void write(PacketWriter& packet, const Tensor& tensor);
/// Reads it, on the default device. Errors  CommError for bytes that are no tensor.
Tensor read_tensor(PacketReader& packet);

/// Sends a list [N] of a CPU device to other ranks, in pieces that fit a control message.
void tell_list(Group& group, const std::set<int>& ranks, const Tensor& list);
/// Receives one of as many elements, by as many pieces. Errors  CommError when the rank fails.
void hear_list(Group& group, int rank, const Tensor& list);

}  // namespace sluice::parallel
