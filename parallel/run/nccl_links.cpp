#include "parallel/run/nccl_links.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "core/cuda/cuda.h"
#include "core/cuda/nccl.h"
#include "core/keep_to_the_end.h"
#include "parallel/group/collectives.h"
#include "parallel/group/deadline.h"
#include "parallel/run/agreement.h"

namespace sluice::parallel {

namespace {

constexpr int kSender = 0, kReceiver = 1;  ///< ranks of a channel's communicator

class NcclLink : public GpuLink {
 public:
  NcclLink(int gpu, const std::string& unique_id, int rank) : communicator_(gpu, unique_id, 2, rank) {}

  HasEnded send(const Tensor& tensor, const Event& ready) override {
    return when_passed(communicator_.send(tensor.data(), static_cast<size_t>(tensor.bytes()), kReceiver, ready));
  }
  HasEnded receive(const Tensor& room, const Event& free) override {
    return when_passed(communicator_.receive(room.data(), static_cast<size_t>(room.bytes()), kSender, free));
  }
  void check() override { communicator_.check(); }
  void abandon() noexcept override { communicator_.abandon(); }

 private:
  static HasEnded when_passed(Event event) {
    return [event = std::move(event)] { return has_passed(event); };
  }
  nccl::Communicator communicator_;
};

/// Those that end here, in the one order.
struct Part {
  ChannelEnds ends;
  int rank;    ///< in the communicator
  int device;  ///< of this rank
  int other;   ///< rank of the job
};

std::vector<Part> parts_here(const DeviceRanks& ranks, const std::set<ChannelEnds>& channels, const GpuLinks& links) {
  std::vector<Part> parts;
  for (const ChannelEnds& ends : channels) {
    if (links.contains(ends)) continue;
    if (ranks.is_here(ends.from)) parts.push_back({ends, kSender, ends.from, ranks.of(ends.to)});
    if (ranks.is_here(ends.to)) parts.push_back({ends, kReceiver, ends.to, ranks.of(ends.from)});
  }
  return parts;
}

/// Senders make the names. What one rank tells another comes in its order, which is that of the channels.
std::map<ChannelEnds, std::string> exchange_ids(Group& group, const std::vector<Part>& parts, SteadyClock::time_point deadline) {
  std::map<ChannelEnds, std::string> ids;
  for (const Part& part : parts)
    if (part.rank == kSender) group.tell(part.other, ids[part.ends] = nccl::new_unique_id());
  for (const Part& part : parts)
    if (part.rank == kReceiver) ids[part.ends] = group.hear(part.other, seconds_until(deadline));
  return ids;
}

/// Moves some bytes through each, so that no thread of a step waits for a connection, and a GPU that another cannot reach shows here. Both
/// ends wait at the same place: the first operation blocks until the other end's has come.
void warm_up(const std::vector<Part>& parts, const std::vector<DevicePtr>& devices, GpuLinks& links, double seconds,
             SteadyClock::time_point deadline) {
  std::vector<Tensor> memory;  // until all have ended
  std::vector<GpuLink::HasEnded> ended;
  for (const Part& part : parts) {
    const DevicePtr& device = devices[part.device];
    memory.push_back(empty({16}, DType::f32, device));
    GpuLink& link = *links.at(part.ends);
    ended.push_back(part.rank == kSender ? link.send(memory.back(), device->record()) : link.receive(memory.back(), device->record()));
  }
  for (size_t i = 0; i < parts.size(); ++i)
    for (; !ended[i](); std::this_thread::sleep_for(std::chrono::microseconds(50))) {
      if (seconds_until(deadline) > 0) continue;
      for (auto& [ends, link] : links) link->abandon();
      keep_to_the_end(std::move(memory));  // which the GPU may still write
      throw CommError(join("nccl: needed the first bytes from device ", parts[i].ends.from, " to device ", parts[i].ends.to, " within ",
                           seconds, " s, and they did not come; the other end is rank ", parts[i].other,
                           "; see that the two GPUs reach each other (NCCL_DEBUG=INFO says how), or allow more time"));
    }
}

}  // namespace

std::set<ChannelEnds> channels_between_ranks(const Program& program, const DeviceRanks& ranks) {
  std::set<ChannelEnds> channels;
  for (const auto& actions : program.devices)
    for (const Action& action : actions) {
      if (action.kind != ActionKind::send) continue;
      const ChannelEnds ends{program.sender(action.transfer), program.receiver(action.transfer)};
      if (ranks.of(ends.from) != ranks.of(ends.to)) channels.insert(ends);
    }
  return channels;
}

void require_one_nccl(Group& group) {
  together(&group, [] { require(nccl::unavailable_reason().empty(), "pipeline.devices: ", nccl::unavailable_reason()); });
  const std::vector<std::string> versions = gather(group, nccl::library_version());
  on_root(&group, [&] {
    for (size_t rank = 1; rank < versions.size(); ++rank)
      require(versions[rank] == versions[0], "pipeline.devices: needs one version of NCCL on all ranks, got NCCL ", versions[0],
              " on rank 0 and ", versions[rank], " on rank ", rank,
              "; install one version on all hosts, and see that LD_LIBRARY_PATH names it everywhere");
  });
}

void connect_by_nccl(Group& group, const DeviceRanks& ranks, const std::vector<DevicePtr>& devices, const std::set<ChannelEnds>& channels,
                     double seconds, GpuLinks& links) {
  const auto deadline = deadline_in(seconds);
  const std::vector<Part> parts = parts_here(ranks, channels, links);
  const auto ids = exchange_ids(group, parts, deadline);
  barrier(group, seconds_until(deadline));  // from here on NCCL waits, which knows no deadline: all ranks are there
  for (const Part& part : parts)
    links.emplace(part.ends, std::make_unique<NcclLink>(devices[part.device]->cuda().index(), ids.at(part.ends), part.rank));
  warm_up(parts, devices, links, seconds, deadline);
}

}  // namespace sluice::parallel
