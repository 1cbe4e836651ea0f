#include "parallel/group/heartbeat_record.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace sluice::parallel {

void HeartbeatRecord::hear(int from, const std::string& text) {
  std::lock_guard lock(mutex_);
  const size_t end = text.find('\n');
  heard_[from] = {SteadyClock::now(), true, text.substr(0, end), end == std::string::npos ? "" : text.substr(end + 1)};
}

std::vector<std::optional<Heartbeat>> HeartbeatRecord::latest() const {
  std::lock_guard lock(mutex_);
  std::vector<std::optional<Heartbeat>> all(heard_.size());
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (heard_[rank].is_known) all[rank] = Heartbeat{heard_[rank].status, seconds_since(heard_[rank].time)};
  return all;
}

void HeartbeatRecord::set_watchdog(double seconds) {
  std::lock_guard lock(mutex_);
  watchdog_seconds_ = seconds;
  last_look_ = SteadyClock::now();
  for (Heard& heard : heard_) heard.time = last_look_;
}

std::string HeartbeatRecord::silence() {
  std::lock_guard lock(mutex_);
  constexpr std::chrono::milliseconds kAsleep(500);
  const auto now = SteadyClock::now(), last = std::exchange(last_look_, now);
  if (now - last > kAsleep)
    for (Heard& heard : heard_) heard.time = std::min(now, heard.time + (now - last));
  for (int rank = 0; rank < static_cast<int>(heard_.size()); ++rank)
    if (locked_is_silent(rank))
      return join(locked_name_of(rank), " has not been heard of for ", watchdog_seconds_,
                  " s: it was killed, stopped, or its link is lost");
  return "";
}

bool HeartbeatRecord::is_silent(int rank) const {
  std::lock_guard lock(mutex_);
  return locked_is_silent(rank);
}

bool HeartbeatRecord::locked_is_silent(int rank) const {
  return watchdog_seconds_ > 0 && hears(rank) && seconds_since(heard_[rank].time) > watchdog_seconds_;
}

std::string HeartbeatRecord::name_of(int rank) const {
  std::lock_guard lock(mutex_);
  return locked_name_of(rank);
}

std::string HeartbeatRecord::locked_name_of(int rank) const {
  return join("rank ", rank, heard_[rank].is_known ? join(" (on host ", heard_[rank].host, ")") : "");
}

}  // namespace sluice::parallel
