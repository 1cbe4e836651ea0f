#include "parallel/run/agreed_choices.h"

#include <algorithm>

#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

namespace {

std::string packed(const GpuChoices& choices) {
  PacketWriter packet;
  packet << choices;
  return packet.take();
}

GpuChoices unpacked(const std::string& bytes) { return PacketReader(bytes).read<GpuChoices>(); }

}  // namespace

bool any_rank(Group* group, bool mine) {
  if (!group) return mine;
  const std::string yes = "yes";
  const auto all = gather(*group, mine ? yes : "");
  return broadcast(*group, std::ranges::count(all, yes) > 0 ? yes : "") == yes;
}

GpuChoices agreed_choices(Group* group, const GpuChoices& mine) {
  if (!group) return mine;
  GpuChoices agreed;
  for (const std::string& of_rank : gather(*group, packed(mine))) agreed.merge(unpacked(of_rank));
  return unpacked(broadcast(*group, packed(agreed)));
}

}  // namespace sluice::parallel
