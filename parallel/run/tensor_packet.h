#pragma once
#include <set>

#include "core/tensor.h"
#include "parallel/group/group.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

/// The tensor itself, or a copy of one that is on a GPU, after the work that makes it.
Tensor on_host(const Tensor& tensor);

/// Adds a tensor of a CPU or CUDA device, or an undefined one, to a control message.
void write(PacketWriter& packet, const Tensor& tensor);
/// Reads it, on the default device. Errors  CommError for bytes that are no tensor.
Tensor read_tensor(PacketReader& packet);

/// Sends a list [N] to other ranks, in pieces that fit a control message.
void tell_list(Group& group, const std::set<int>& ranks, const Tensor& list);
/// Receives one of as many elements, by as many pieces. Errors  CommError when the rank fails.
void hear_list(Group& group, int rank, const Tensor& list);

}  // namespace sluice::parallel
