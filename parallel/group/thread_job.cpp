#include "parallel/group/thread_job.h"

#include <cstring>
#include <utility>

#include "core/error.h"
#include "parallel/group/deadline.h"

namespace sluice::parallel {

ThreadJob::ThreadJob(int ranks) {
  require(ranks > 0, "group: needs at least one rank, got ", ranks);
  for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>());
}

RequestPtr ThreadJob::send(int from, int to, int channel, std::span<const std::byte> bytes, uint8_t label) {
  auto request = std::make_shared<Request>();
  std::lock_guard lock(mutex_);
  const ChannelName name{from, to, channel};
  ++members_[from]->under_way;
  channels_[name].sends.push_back({request, bytes, label});
  hand_over(name, channels_[name]);
  return request;
}

RequestPtr ThreadJob::receive(int to, int from, int channel, std::span<std::byte> room, uint8_t label) {
  auto request = std::make_shared<Request>();
  std::lock_guard lock(mutex_);
  const ChannelName name{from, to, channel};
  ++members_[to]->under_way;
  channels_[name].receives.push_back({request, room, label});
  hand_over(name, channels_[name]);
  return request;
}

void ThreadJob::hand_over(const ChannelName& name, Channel& channel) {
  // A rank that failed may have freed what it sent.
  while (failed_rank_ < 0 && !channel.sends.empty() && !channel.receives.empty()) {
    const Send& send = channel.sends.front();
    const Receive& receive = channel.receives.front();
    if (send.label != receive.label) return;
    const auto [from, to, number] = name;
    if (send.bytes.size() <= receive.room.size()) {
      if (!send.bytes.empty()) std::memcpy(receive.room.data(), send.bytes.data(), send.bytes.size());
    } else {
      receive.request->error = join("group: rank ", to, " needed a message of at most ", receive.room.size(), " bytes from rank ", from,
                                    " on channel ", number, ", got ", send.bytes.size(), "; receive into a larger room");
    }
    send.request->bytes = receive.request->bytes = send.bytes.size();
    send.request->is_done = receive.request->is_done = true;
    --members_[from]->under_way;
    --members_[to]->under_way;
    channel.sends.pop_front();
    channel.receives.pop_front();
    changed_.notify_all();
  }
}

template <class IsOver>
bool ThreadJob::wait_until(int rank, double seconds, std::unique_lock<std::mutex>& lock, const IsOver& is_over) {
  const Failure& failure = members_[rank]->failure;
  changed_.wait_until(lock, deadline_in(seconds), [&] { return is_over() || failure.is_set(); });
  if (is_over()) return true;
  failure.check();
  return false;
}

bool ThreadJob::wait(int rank, const Request& request, double seconds) {
  std::unique_lock lock(mutex_);
  if (!wait_until(rank, seconds, lock, [&] { return request.is_done.load(); })) return false;
  require<CommError>(request.error.empty(), request.error);
  return true;
}

void ThreadJob::tell(int from, int to, std::string message) {
  std::lock_guard lock(mutex_);
  members_[to]->inbox[from].push_back(std::move(message));
  changed_.notify_all();
}

std::string ThreadJob::hear(int to, int from, double seconds) {
  std::unique_lock lock(mutex_);
  auto& messages = members_[to]->inbox[from];
  require<CommError>(wait_until(to, seconds, lock, [&] { return !messages.empty(); }), "group: rank ", to, " needed a message of rank ",
                     from, " within ", told_seconds(seconds), " s, got none; see what that rank does, or allow more time");
  std::string message = std::move(messages.front());
  messages.pop_front();
  return message;
}

void ThreadJob::abort(int rank, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (failed_rank_ >= 0) return;
    failed_rank_ = rank;
    for (int other = 0; other < size(); ++other) failure_of(other).set(join("rank ", rank, ": ", reason), other == rank);
    changed_.notify_all();
  }
  for (int other = 0; other < size(); ++other) failure_of(other).call_hook();
}

void ThreadJob::set_status(int rank, std::function<std::string()> status) {
  std::lock_guard lock(members_[rank]->status_mutex);
  members_[rank]->status = std::move(status);
}

std::string ThreadJob::status_of(int rank) {
  std::lock_guard lock(members_[rank]->status_mutex);
  return members_[rank]->status ? members_[rank]->status() : "";
}

void ThreadJob::close(int rank, double seconds) {
  const auto deadline = deadline_in(seconds);
  std::unique_lock lock(mutex_);
  Member& self = *members_[rank];
  require<CommError>(wait_until(rank, seconds, lock, [&] { return self.under_way == 0; }), "group: rank ", rank,
                     " needed the end of all its messages within ", seconds, " s to close, got ", self.under_way,
                     " that the other ranks did not send or receive");
  self.is_closed = true;
  changed_.notify_all();
  std::string missing;
  const bool all_closed = wait_until(rank, seconds_until(deadline), lock, [&] {
    missing.clear();
    for (int other = 0; other < size(); ++other)
      if (!members_[other]->is_closed) missing += join(missing.empty() ? "" : ", ", other);
    return missing.empty();
  });
  require<CommError>(all_closed, "group: rank ", rank, " needed all ranks to close within ", seconds, " s, got none of rank ", missing,
                     "; see what they do, or allow more time");
}

void ThreadJob::leave(int rank) {
  failure_of(rank).set_hook({});
  set_status(rank, {});
  std::lock_guard lock(mutex_);
  for (auto& [name, channel] : channels_) {
    if (std::get<0>(name) == rank) channel.sends.clear();
    if (std::get<1>(name) == rank) channel.receives.clear();
  }
}

int ThreadJob::failed_rank() const {
  std::lock_guard lock(mutex_);
  return failed_rank_;
}

}  // namespace sluice::parallel
