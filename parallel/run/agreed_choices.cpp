#include "parallel/run/agreed_choices.h"

#include <algorithm>

#include "parallel/group/collectives.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

namespace {

std::string packed(const GpuChoices& choices) {
  PacketWriter packet;
  packet << choices.size();
  for (const auto& [kind, choice] : choices) packet << kind << choice;
  return packet.take();
}

GpuChoices unpacked(const std::string& bytes) {
  PacketReader packet(bytes);
  GpuChoices choices;
  for (auto left = packet.read<size_t>(); left > 0; --left) {
    const auto kind = packet.read<std::string>();
    choices[kind] = packet.read<std::string>();
  }
  return choices;
}

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
