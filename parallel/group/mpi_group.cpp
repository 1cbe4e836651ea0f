#include "parallel/group/mpi_group.h"

#include <sched.h>

#include <memory>
#include <utility>

#include "core/start_thread.h"
#include "parallel/group/host_name.h"
#include "parallel/group/peer.h"

namespace sluice::parallel {

namespace {

/// A wait looks so long before it sleeps: longer than a small message takes.
constexpr double kSpinSeconds = 200e-6;
/// How long it sleeps at most.
constexpr std::chrono::microseconds kSleep(100);

/// Counts one who waits.
class Waiting {
 public:
  explicit Waiting(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

MpiGroup::MpiGroup(const MpiLibrary& library, int rank, int size, int tag_limit, size_t piece_bytes)
    : library_(library),
      rank_(rank),
      size_(size),
      channels_(MpiTraffic::channels_within(tag_limit)),
      host_(host_name()),
      heartbeats_(rank, size),
      inbox_(size),
      traffic_(library, rank, piece_bytes),
      control_(library, size, [this](ControlKind kind, int from, std::string message) { deliver(kind, from, std::move(message)); }),
      progress_(start_thread("a group of ranks", [this](const std::stop_token& stop) { progress(stop); })) {}

MpiGroup::~MpiGroup() {
  progress_.request_stop();
  progress_.join();
  failure_.set_hook({});
}

void MpiGroup::check(const char* call, int peer, int channel) const {
  check_peer(call, rank_, size_, peer);
  check_channel(call, channels_, channel);
}

RequestPtr MpiGroup::send(int to, int channel, std::span<const std::byte> bytes, uint8_t label) {
  check("send", to, channel);
  moved_ = SteadyClock::now();
  return with_mpi([&] { return failure_.is_set() ? std::make_shared<Request>() : traffic_.send(to, channel, bytes, label); });
}

RequestPtr MpiGroup::receive(int from, int channel, std::span<std::byte> room, uint8_t label) {
  check("receive", from, channel);
  return with_mpi([&] { return failure_.is_set() ? std::make_shared<Request>() : traffic_.receive(from, channel, room, label); });
}

bool MpiGroup::wait(const Request& request, double seconds) {
  if (!wait_until(seconds, [&] { return request.is_done.load(); })) return false;
  require<CommError>(request.error.empty(), request.error);
  return true;
}

void MpiGroup::tell(int to, std::string message) {
  check("tell", to, 0);
  with_mpi([&] {
    if (!has_ended_) control_.tell(ControlKind::message, to, std::move(message));
  });
}

std::string MpiGroup::hear(int from, double seconds) {
  check("hear", from, 0);
  std::optional<std::string> message;
  require<CommError>(wait_until(seconds, [&] { return (message = take(from)).has_value(); }), "group: rank ", rank_,
                     " needed a message of ", heartbeats_.name_of(from), " within ", told_seconds(seconds),
                     " s, got none; see what that rank does, or allow more time");
  return std::move(*message);
}

void MpiGroup::set_status(std::function<std::string()> status) {
  std::lock_guard lock(status_mutex_);
  status_ = std::move(status);
}

std::optional<std::string> MpiGroup::take(int from) {
  std::lock_guard lock(inbox_mutex_);
  if (inbox_[from].empty()) return std::nullopt;
  std::string message = std::move(inbox_[from].front());
  inbox_[from].pop_front();
  return message;
}

bool MpiGroup::wait_until(double seconds, const std::function<bool()>& is_over) {
  const auto start = SteadyClock::now(), deadline = deadline_in(seconds);
  const Waiting counted(waiting_);
  while (true) {
    poll();
    if (is_over()) return true;
    failure_.check();
    if (SteadyClock::now() >= deadline) return false;
    if (seconds_since(start) < kSpinSeconds) {
      sched_yield();
      continue;
    }
    std::unique_lock lock(sleep_mutex_);
    progressed_.wait_for(lock, kSleep);
  }
}

void MpiGroup::poll() {
  try_with_mpi(std::unique_lock(mpi_mutex_, std::try_to_lock), [&] {
    const size_t before = traffic_.under_way();
    if (!failure_.is_set()) traffic_.poll();  // else its memory may be gone
    control_.poll();
    if (traffic_.under_way() < before) moved_ = SteadyClock::now();
  });
}

}  // namespace sluice::parallel
