#pragma once
#include "core/tensor.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

/// Adds a tensor of a CPU device, or an undefined one, to a control message.
void write(PacketWriter& packet, const Tensor& tensor);
/// Reads it, on the default device. Errors  CommError for bytes that are no tensor.
Tensor read_tensor(PacketReader& packet);

}  // namespace sluice::parallel
