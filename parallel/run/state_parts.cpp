#include "parallel/run/state_parts.h"

#include <optional>
#include <utility>

#include "core/ops/copy.h"
#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"
#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

namespace {

/// By name of the whole, and first element.
using Key = std::pair<std::string, int64_t>;

std::map<Key, StatePart> by_key(const std::vector<StatePart>& parts) {
  std::map<Key, StatePart> keyed;
  for (const StatePart& part : parts) keyed.try_emplace({part.name, part.elements.first}, part);
  return keyed;
}

/// The lowest rank that has each part of any.
std::map<Key, int> owners_of(const std::map<Key, StatePart>& mine, Group* group) {
  std::map<Key, int> owners;
  if (!group) {
    for (const auto& [key, part] : mine) owners[key] = 0;
    return owners;
  }
  PacketWriter keys;
  keys << mine.size();
  for (const auto& [key, part] : mine) keys << key.first << key.second;
  PacketWriter all;
  for (const std::string& of_rank : gather(*group, keys.take())) all << of_rank;
  const std::string table = broadcast(*group, group->is_root() ? all.take() : "");
  PacketReader ranks(table);
  for (int rank = 0; rank < group->size(); ++rank) {
    const auto of_rank = ranks.read<std::string>();
    PacketReader packet(of_rank);
    for (auto left = packet.read<size_t>(); left > 0; --left) {
      auto name = packet.read<std::string>();
      owners.try_emplace({std::move(name), packet.read<int64_t>()}, rank);
    }
  }
  return owners;
}

/// Puts the parts of one tensor together.
class Assembly {
 public:
  explicit Assembly(const StatePart& first) : whole_(empty(first.shape, first.tensor.dtype())), filled_(first.elements.end()) {
    copy(elements_of(first.tensor, {0, first.elements.count}), elements_of(whole_, first.elements));
  }
  /// The elements that come next, up to `end`, which the next part or the end of the tensor gives.
  Tensor next(int64_t end) {
    const ElementRange range{filled_, end - filled_};
    filled_ = end;
    return elements_of(whole_, range);
  }
  const Tensor& whole() const { return whole_; }

 private:
  Tensor whole_;
  int64_t filled_;
};

Tensor list_of(const StatePart& part) { return elements_of(part.tensor, {0, part.elements.count}); }

}  // namespace

std::map<std::string, Tensor> whole_tensors(const std::vector<StatePart>& parts, Group* group) {
  const auto mine = by_key(parts);
  const auto owners = owners_of(mine, group);
  const int rank = group ? group->rank() : 0;
  std::map<std::string, Tensor> tensors;
  std::optional<Assembly> assembly;
  int target = -1;
  for (auto owner = owners.begin(); owner != owners.end(); ++owner) {
    const auto& [name, first] = owner->first;
    const auto next = std::next(owner);
    const bool is_last = next == owners.end() || next->first.first != name;
    if (first == 0) {
      target = owner->second;
      assembly.reset();
      if (rank != target) continue;
      const StatePart& part = mine.at(owner->first);
      if (part.is_whole()) {
        tensors[name] = part.tensor;
      } else {
        tensors[name] = assembly.emplace(part).whole();
      }
      continue;
    }
    if (rank == target) {
      const int64_t end = is_last ? assembly->whole().elements() : next->first.second;
      const Tensor room = assembly->next(end);
      owner->second == rank ? copy(list_of(mine.at(owner->first)), room) : hear_list(*group, owner->second, room);
    } else if (rank == owner->second) {
      tell_list(*group, {target}, list_of(mine.at(owner->first)));
    }
  }
  return tensors;
}

void put(const std::map<std::string, Tensor>& whole, const std::vector<StatePart>& parts) {
  for (const StatePart& part : parts) copy(elements_of(whole.at(part.name), part.elements), list_of(part));
}

}  // namespace sluice::parallel
