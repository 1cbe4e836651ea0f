#include "tests/emulation/nccl_clique.h"

#include <algorithm>

#include "tests/emulation/nccl.h"
#include "tests/emulation/runtime.h"

namespace sluice::emulation {

/// Of the sends in their order: the first that is not in the FIFO goes on.
size_t Connection::fill() {
  if (sender.running.empty()) return 0;
  auto& [launch, index] = sender.running.front();
  Operation& send = launch->operations[index];
  if (send.moved == 0) messages.push_back({send.bytes, 0, launch->grouping_with(send.peer)});
  const size_t room = emulated_nccl().fifo_bytes - std::min(emulated_nccl().fifo_bytes, fifo.size());
  const size_t count = std::min(room, send.bytes - send.moved);
  fifo.insert(fifo.end(), send.memory + send.moved, send.memory + send.moved + count);
  send.moved += count;
  if (send.moved == 0) messages.pop_back();  // there was no room for its first byte
  if (send.moved == send.bytes) sender.running.pop_front();
  return count;
}

/// Of the receives in their order. One of another size than the message that comes, or of another grouping, stays for ever.
size_t Connection::drain() {
  if (receiver.running.empty() || messages.empty()) return 0;
  auto& [launch, index] = receiver.running.front();
  Operation& receive = launch->operations[index];
  Message& message = messages.front();
  if (message.bytes != receive.bytes || message.grouping != launch->grouping_with(receive.peer).mirrored()) return 0;
  const size_t count = std::min(fifo.size(), message.bytes - message.taken);
  std::copy_n(fifo.begin(), count, receive.memory + receive.moved);
  fifo.erase(fifo.begin(), fifo.begin() + static_cast<std::ptrdiff_t>(count));
  receive.moved += count;
  message.taken += count;
  emulated_nccl().bytes_moved += count;
  if (message.taken == message.bytes) {
    messages.pop_front();
    receiver.running.pop_front();
  }
  return count;
}

void Connection::advance(Runtime& state) {
  while (fill() + drain() > 0) state.ranks.note_change();
}

bool GroupLaunch::is_done() const {
  return std::ranges::all_of(operations, [](const Operation& operation) { return operation.moved == operation.bytes; });
}

Connection::Grouping GroupLaunch::grouping_with(int peer) const {
  Connection::Grouping grouping;
  for (const Operation& operation : operations)
    if (operation.peer == peer) ++(operation.is_send ? grouping.sends : grouping.receives);
  return grouping;
}

namespace {

void begin(Runtime& state, const std::shared_ptr<GroupLaunch>& launch) {
  if (launch->is_begun) return;
  launch->is_begun = true;
  for (size_t index = 0; index < launch->operations.size(); ++index) {
    const Operation& operation = launch->operations[index];
    Connection& connection = launch->communicator->connection(operation);
    (operation.is_send ? connection.sender : connection.receiver).running.emplace_back(launch, index);
  }
  state.ranks.note_change();
}

void run_queue_until(const std::shared_ptr<GroupLaunch>& launch) { launch->queue->run_until(launch->position); }

/// The other ends' GPUs do not wait for this one's host: what they have to do for this launch happens when it is waited for.
void run_peers(const GroupLaunch& launch) {
  for (const Operation& operation : launch.operations) {
    if (operation.moved == operation.bytes) continue;
    const ncclComm* const peer = launch.communicator->clique->members[operation.peer];
    if (!peer || peer == launch.communicator || peer->launches.empty()) continue;
    try {
      run_queue_until(std::shared_ptr(peer->launches.front()));
    } catch (const Blocked&) {
    }
  }
}

}  // namespace

void run_launch(Runtime& state, const std::shared_ptr<GroupLaunch>& launch) {
  auto& launches = launch->communicator->launches;
  while (launches.front() != launch) run_queue_until(std::shared_ptr(launches.front()));
  begin(state, launch);
  for (uint64_t seen = 0; !launch->is_done() && seen != state.ranks.changes();) {
    seen = state.ranks.changes();
    for (const Operation& operation : launch->operations) launch->communicator->connection(operation).advance(state);
    if (!launch->is_done()) run_peers(*launch);
  }
  if (!launch->is_done()) throw Blocked{};
  launches.pop_front();
  state.ranks.note_change();
}

}  // namespace sluice::emulation

sluice::emulation::Connection& ncclComm::connection(const sluice::emulation::Operation& operation) const {
  return operation.is_send ? clique->connections[{rank, operation.peer}] : clique->connections[{operation.peer, rank}];
}
