#include "parallel/run/model_hash.h"

#include <algorithm>
#include <string_view>

#include "core/file/hash.h"
#include "core/no_elements.h"
#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"
#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

namespace {

constexpr size_t kPieceBytes = size_t{1} << 28;  ///< of a control message

/// Of a tensor on the host.
std::string_view bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes())};
}

void add(const Tensor& tensor, Hash& hash) {
  const Tensor value = on_host(tensor);
  hash.add(value.data(), static_cast<size_t>(value.bytes()));
}

/// The root asks for the tensors piece by piece, so that it holds one of them.
void answer_root(Group& group, const std::map<std::string, Tensor>& mine) {
  PacketWriter names;
  names << mine.size();
  for (const auto& [name, tensor] : mine) names << name << static_cast<size_t>(tensor.bytes());
  group.tell(0, names.take());
  for (const auto& [name, tensor] : mine) {
    const Tensor value = on_host(tensor);
    const std::string_view bytes = bytes_of(value);
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      group.hear(0, kNoEnd);
      group.tell(0, std::string(bytes.substr(at, kPieceBytes)));
    }
  }
}

struct Owner {
  int rank;
  size_t bytes;
};

std::string hash_of_ranks(Group& group, const std::map<std::string, Tensor>& mine) {
  std::map<std::string, Owner> owners;
  for (const auto& [name, tensor] : mine) owners[name] = {0, 0};
  for (int rank = 1; rank < group.size(); ++rank) {
    const std::string names = group.hear(rank, kNoEnd);
    PacketReader packet(names);
    for (auto left = packet.read<size_t>(); left > 0; --left) {
      const auto name = packet.read<std::string>();
      owners[name] = {rank, packet.read<size_t>()};
    }
  }
  Hash hash;
  for (const auto& [name, owner] : owners) {
    if (owner.rank == 0) add(mine.at(name), hash);
    for (size_t left = owner.bytes; left > 0;) {
      group.tell(owner.rank, "");
      const std::string piece = group.hear(owner.rank, kNoEnd);
      hash.add(piece.data(), piece.size());
      left -= std::min(left, piece.size());
    }
  }
  return hash.text();
}

}  // namespace

void require_values(const std::map<std::string, Tensor>& model) {
  for (const auto& [name, tensor] : model)
    require<NoElements>(tensor.device().kind() != DeviceKind::meta, "weights: need values to be hashed or saved, '", name, "' is on ",
                        tensor.device(), ", which only counts; make the trainer on cpu or cuda devices");
}

std::string hash_of_model(Group* group, const std::map<std::string, Tensor>& mine) {
  require_values(mine);
  if (group && !group->is_root()) answer_root(*group, mine);
  if (group) return broadcast(*group, group->is_root() ? hash_of_ranks(*group, mine) : "");
  Hash hash;
  for (const auto& [name, tensor] : mine) add(tensor, hash);
  return hash.text();
}

}  // namespace sluice::parallel
