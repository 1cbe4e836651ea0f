// What the thread of a group over MPI does, and how failures spread.
#include <algorithm>
#include <utility>

#include "core/start_thread.h"
#include "parallel/group/mpi_group.h"

namespace sluice::parallel {

namespace {

/// How often somebody asks MPI, without which nothing moves. Each time takes a core from a kernel for some 10 us, and receives are posted long
/// before anything comes, so that the thread asks the less often the longer nothing has moved. Who waits asks for itself.
constexpr std::chrono::microseconds kShortestPeriod(50), kLongestPeriod(1000);
constexpr int kPeriodsOfQuiet = 4;
constexpr double kHeartbeatSeconds = 1;
/// How long a rank that fails tries to tell the others, one of which may take no more messages.
constexpr double kAbortSeconds = 0.5;

}  // namespace

void MpiGroup::progress(const std::stop_token& stop) {
  auto next_heartbeat = SteadyClock::now();
  while (!stop.stop_requested()) {
    poll();
    if (SteadyClock::now() >= next_heartbeat && sends_heartbeats_ && !failure_.is_set()) {
      send_heartbeats();
      next_heartbeat = deadline_in(kHeartbeatSeconds);
    }
    if (const std::string silence = heartbeats_.silence(); !silence.empty() && !failure_.is_set()) fail(silence, false);
    call_hook_once();
    std::this_thread::sleep_for(period());
  }
}

std::chrono::microseconds MpiGroup::period() const {
  if (waiting_ > 0) return kLongestPeriod;
  const auto quiet = std::chrono::duration_cast<std::chrono::microseconds>(SteadyClock::now() - moved_.load());
  return std::clamp(quiet / kPeriodsOfQuiet, kShortestPeriod, kLongestPeriod);
}

void MpiGroup::send_heartbeats() {
  std::string status;
  {
    std::lock_guard lock(status_mutex_);
    if (status_) status = status_();
  }
  const std::string text = HeartbeatRecord::text(host_, status);
  try_with_mpi(std::unique_lock(mpi_mutex_), [&] {
    for (int to = 0; to < (rank_ == 0 ? size_ : 1) && sends_heartbeats_; ++to)
      if (to != rank_ && control_.is_idle(ControlKind::heartbeat, to)) control_.tell(ControlKind::heartbeat, to, text);
  });
}

/// On a thread of its own: the hook may ask for heartbeats, which the thread of the group brings.
void MpiGroup::call_hook_once() {
  if (!failure_.is_set() || hook_caller_.joinable()) return;
  try {
    hook_caller_ = start_thread("a group of ranks", [this] { failure_.call_hook(); });
  } catch (const ResourceError&) {
    failure_.call_hook();
  }
}

/// Begins to tell all others.
void MpiGroup::fail(const std::string& text, bool is_own) {
  std::unique_lock lock(mpi_mutex_);  // so that abort() on another thread does not return before they are told
  if (!failure_.set(text, is_own)) return;
  told_until_ = deadline_in(kAbortSeconds);
  try_with_mpi(std::move(lock), [&] {
    for (int to = 0; to < size_; ++to)
      if (to != rank_) control_.tell(ControlKind::abort, to, text);
  });
  progressed_.notify_all();
}

/// Also where the watchdog began to tell them, or an earlier call: all calls together wait once. A rank that is silent will not take it, and
/// the launcher may end this one meanwhile.
void MpiGroup::abort(const std::string& reason) {
  fail(join("rank ", rank_, " (on host ", host_, "): ", reason), true);
  const auto are_told = [&] {
    for (int to = 0; to < size_; ++to)
      if (!heartbeats_.is_silent(to) && !control_.is_idle(ControlKind::abort, to)) return false;
    return true;
  };
  while (!with_mpi([&] { return has_ended_ || SteadyClock::now() >= told_until_ || are_told(); })) {
    poll();
    std::this_thread::sleep_for(kShortestPeriod);
  }
}

void MpiGroup::deliver(ControlKind kind, int from, std::string message) {
  switch (kind) {
    case ControlKind::message: {
      std::lock_guard lock(inbox_mutex_);
      inbox_[from].push_back(std::move(message));
      break;
    }
    case ControlKind::heartbeat:
      heartbeats_.hear(from, message);
      break;
    case ControlKind::abort:
      failure_.set(message, false);
      break;
  }
  progressed_.notify_all();
}

}  // namespace sluice::parallel
