#include "parallel/run/tensor_packet.h"

#include <algorithm>

#include "core/ops/copy.h"
#include "parallel/group/collectives.h"

namespace sluice::parallel {

Tensor on_host(const Tensor& tensor) { return tensor.device().kind() == DeviceKind::cuda ? tensor.to(default_device()) : tensor; }

void write(PacketWriter& packet, const Tensor& tensor) {
  packet << tensor.defined();
  if (!tensor.defined()) return;
  const Tensor dense = on_host(tensor).contiguous();
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

namespace {

/// Visits a list piece by piece.
template <class Visit>
void in_pieces(const Tensor& list, const Visit& visit) {
  constexpr int64_t kPieceElements = int64_t{1} << 25;
  for (int64_t at = 0; at < list.elements(); at += kPieceElements) visit(list.slice(0, at, std::min(list.elements(), at + kPieceElements)));
}

}  // namespace

void tell_list(Group& group, const std::set<int>& ranks, const Tensor& list) {
  in_pieces(list, [&](const Tensor& piece) {
    PacketWriter packet;
    write(packet, piece);
    const std::string bytes = packet.take();
    for (const int rank : ranks) group.tell(rank, bytes);
  });
}

void hear_list(Group& group, int rank, const Tensor& list) {
  in_pieces(list, [&](const Tensor& piece) {
    const std::string bytes = group.hear(rank, kNoEnd);
    PacketReader packet(bytes);
    copy(read_tensor(packet), piece);
  });
}

}  // namespace sluice::parallel
