// Where the devices of a run are, as ranks tell each other, and what that says of a run that does not go on.
#include <mutex>
#include <optional>

#include "parallel/group/packet.h"
#include "parallel/run/attempt.h"
#include "parallel/run/hang_report.h"

namespace sluice::parallel {

/// What goes to the other ranks: the step, and how many of their actions the devices have finished.
std::string Executor::status() const {
  std::shared_ptr<Attempt> attempt;
  {
    std::lock_guard lock(current_mutex_);
    attempt = current_.lock();
  }
  if (!attempt) return {};
  PacketWriter packet;
  packet << attempt->context.step;
  for (const auto& run : attempt->runs) packet << run->position();
  return packet.take();
}

/// By device; nothing where another rank has not said so of this step.
std::vector<std::optional<size_t>> Executor::positions(const Runs& runs, uint32_t step) const {
  std::vector<std::optional<size_t>> finished(devices_.size());
  for (size_t i = 0; i < runs.size(); ++i) finished[here_[i]] = runs[i]->position();
  if (!group_) return finished;
  const auto heard = group_->heartbeats();
  for (int rank = 0; rank < ranks_.ranks(); ++rank) {
    if (rank == ranks_.rank() || !heard[rank] || heard[rank]->status.empty()) continue;
    PacketReader packet(heard[rank]->status);
    if (packet.read<uint32_t>() != step) continue;
    for (int i = 0; i < ranks_.per_rank(); ++i) finished[rank * ranks_.per_rank() + i] = packet.read<size_t>();
  }
  return finished;
}

/// A rank that another one's failure has stopped says where it was, and the root where all were.
void Executor::rethrow_with_positions(const Attempt& attempt, const Program& program) const {
  try {
    throw;
  } catch (const CommError& error) {
    const std::string text = error.what();
    const bool says_where = text.find("\n  device ") != std::string::npos;
    if (!group_ || group_->failure().empty() || says_where) throw;
    throw CommError(text + hang(attempt, program));
  }
}

std::string Executor::hang(const Attempt& attempt, const Program& program) const {
  std::vector<std::string> names;
  for (const auto& device : devices_) names.push_back(device->name());
  return hang_report(program, topology_, names, positions(attempt.runs, attempt.context.step));
}

}  // namespace sluice::parallel
