#include "parallel/group/collectives.h"

#include "core/steady_clock.h"
#include "parallel/group/deadline.h"
#include "parallel/group/host_name.h"
#include "parallel/group/packet.h"

namespace sluice::parallel {

std::vector<std::string> gather(Group& group, std::string mine, double seconds) {
  const auto deadline = deadline_in(seconds);
  if (!group.is_root()) {
    group.tell(0, std::move(mine));
    return {};
  }
  std::vector<std::string> all{std::move(mine)};
  for (int rank = 1; rank < group.size(); ++rank) all.push_back(group.hear(rank, seconds_until(deadline)));
  return all;
}

std::string broadcast(Group& group, std::string of_root, double seconds) {
  if (!group.is_root()) return group.hear(0, seconds);
  for (int rank = 1; rank < group.size(); ++rank) group.tell(rank, of_root);
  return of_root;
}

void barrier(Group& group, double seconds) {
  const auto deadline = deadline_in(seconds);
  if (!group.is_root()) {
    group.tell(0, "");
    group.hear(0, seconds_until(deadline));
    return;
  }
  for (int rank = 1; rank < group.size(); ++rank) group.hear(rank, seconds_until(deadline));
  for (int rank = 1; rank < group.size(); ++rank) group.tell(rank, "");
}

std::vector<std::string> host_names(Group& group) {
  PacketWriter all;
  all << gather(group, host_name());
  const std::string bytes = broadcast(group, all.take());
  return PacketReader(bytes).read<std::vector<std::string>>();
}

double clock_offset(Group& group) {
  constexpr int kRounds = 10;
  if (group.is_root()) {
    for (int rank = 1; rank < group.size(); ++rank)
      for (int round = 0; round < kRounds; ++round) {
        group.hear(rank, kNoEnd);
        PacketWriter answer;
        answer << steady_seconds();
        group.tell(rank, answer.take());
      }
    return 0;
  }
  double shortest = kNoEnd, offset = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double sent = steady_seconds();
    group.tell(0, "");
    const std::string answer = group.hear(0, kNoEnd);
    const double came = steady_seconds(), there = PacketReader(answer).read<double>();
    if (came - sent >= shortest) continue;
    shortest = came - sent;
    offset = there - (sent + came) / 2;
  }
  return offset;
}

}  // namespace sluice::parallel
