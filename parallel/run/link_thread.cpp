#include "parallel/run/link_thread.h"

#include <chrono>

#include "core/start_thread.h"

namespace sluice::parallel {

namespace {

constexpr auto kLookPeriod = std::chrono::microseconds(50);
constexpr auto kCheckPeriod = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::seconds(1);  ///< with a thread that is held up in a call

void require_equal_sizes(const LinkTransfer& transfer) {
  const int64_t bytes = transfer.is_send ? transfer.told : transfer.heard, room = transfer.is_send ? transfer.heard : transfer.told;
  require<CommError>(bytes == room || bytes == LinkTransfer::kLeftOut, "pipeline: needs room for the ", bytes, " bytes of ", transfer.name,
                     ", the receiver has ", room, "; the other end is rank ", transfer.other, "; this is a fault of Sluice, report it");
}

}  // namespace

LinkThread::LinkThread(Group& group) : state_(std::make_shared<State>(group)) {
  thread_ = start_thread("transfers between GPUs", [state = state_] { run(*state); });
}

LinkThread::~LinkThread() {
  bool has_stopped = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->is_stopping = true;
    state_->changed.notify_all();
    has_stopped = state_->changed.wait_for(lock, kPatience, [&] { return state_->has_stopped; });
  }
  if (!has_stopped) thread_.detach();
}

void LinkThread::add(LinkTransferPtr transfer) {
  {
    std::lock_guard lock(state_->mutex);
    state_->check();
    state_->links.insert(transfer->link);
    state_->waiting[{transfer->ends, transfer->is_send}].push_back(std::move(transfer));
  }
  state_->changed.notify_all();
}

bool LinkThread::wait_for_begin(const LinkTransfer& transfer, SteadyClock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, deadline, [&] { return transfer.is_begun || state_->closed || state_->error; });
  state_->check();
  return transfer.is_begun;
}

void LinkThread::check() const {
  std::lock_guard lock(state_->mutex);
  state_->check();
}

void LinkThread::close(const std::string& reason) {
  {
    std::lock_guard lock(state_->mutex);
    if (!state_->closed) state_->closed = reason;
  }
  state_->changed.notify_all();
}

void LinkThread::State::check() const {
  if (closed) throw CommError(*closed);
  if (error) std::rethrow_exception(error);
}

void LinkThread::run(State& state) {
  std::exception_ptr error;
  try {
    work(state);
  } catch (...) {
    error = std::current_exception();
  }
  std::lock_guard lock(state.mutex);
  state.error = error;
  state.has_stopped = true;
  state.changed.notify_all();
}

/// Looks in short intervals only while a transfer waits for its other end.
void LinkThread::work(State& state) {
  for (auto checked = SteadyClock::now();;) {
    const bool has_begun = begin_some(state);
    if (SteadyClock::now() - checked >= kCheckPeriod) {
      check_others(state);
      checked = SteadyClock::now();
    }
    std::unique_lock lock(state.mutex);
    const auto is_over = [&] { return state.is_stopping || state.closed; };
    if (state.waiting.empty())
      state.changed.wait_for(lock, kCheckPeriod, [&] { return is_over() || !state.waiting.empty(); });
    else if (!has_begun)
      state.changed.wait_for(lock, kLookPeriod, is_over);
    if (is_over()) return;
  }
}

/// The first of each channel, at each of its ends that are here.
std::vector<LinkTransferPtr> LinkThread::next_ones(State& state) {
  std::lock_guard lock(state.mutex);
  std::vector<LinkTransferPtr> next;
  for (const auto& [end, transfers] : state.waiting) next.push_back(transfers.front());
  return next;
}

bool LinkThread::begin_some(State& state) {
  bool has_begun = false;
  for (const LinkTransferPtr& transfer : next_ones(state)) {
    if (!state.group.wait(*transfer->hearing, 0)) continue;
    begin(state, transfer);
    has_begun = true;
  }
  return has_begun;
}

void LinkThread::begin(State& state, const LinkTransferPtr& transfer) {
  require_equal_sizes(*transfer);
  GpuLink::HasEnded has_ended;
  if (transfer->moves())
    has_ended = transfer->is_send ? transfer->link->send(transfer->tensor, transfer->ready)
                                  : transfer->link->receive(transfer->tensor, transfer->ready);
  std::lock_guard lock(state.mutex);
  transfer->has_ended = std::move(has_ended);
  transfer->is_begun = true;
  const auto found = state.waiting.find({transfer->ends, transfer->is_send});
  found->second.pop_front();
  if (found->second.empty()) state.waiting.erase(found);
  state.changed.notify_all();
}

/// A device's thread that waits for the GPU asks the group nothing.
void LinkThread::check_others(State& state) {
  const std::string failure = state.group.failure();
  require<CommError>(failure.empty(), failure);
  std::set<GpuLink*> links;
  {
    std::lock_guard lock(state.mutex);
    links = state.links;
  }
  for (GpuLink* link : links) link->check();
}

}  // namespace sluice::parallel
