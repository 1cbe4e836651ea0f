#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

void write(PacketWriter& packet, const Tensor& tensor) {
  packet << tensor.defined();
  if (!tensor.defined()) return;
  const Tensor dense = tensor.contiguous();
  const auto extents = tensor.shape().extents();
  packet << tensor.dtype() << std::vector<int64_t>(extents.begin(), extents.end())
         << std::string_view(reinterpret_cast<const char*>(dense.data()), static_cast<size_t>(dense.bytes()));
}

Tensor read_tensor(PacketReader& packet) {
  if (!packet.read<bool>()) return {};
  const auto dtype = packet.read<DType>();
  const auto extents = packet.read<std::vector<int64_t>>();
  const auto bytes = packet.read<std::string>();
  Tensor tensor = empty(Shape(std::span<const int64_t>(extents)), dtype);
  require<CommError>(static_cast<size_t>(tensor.bytes()) == bytes.size(), "control message: needs ", tensor.bytes(),
                     " bytes of a tensor, got ", bytes.size(), "; are all ranks of one build?");
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace sluice::parallel
