#include "parallel/run/rank_results.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/ops/concat.h"
#include "parallel/group/collectives.h"
#include "parallel/run/tensor_packet.h"

namespace sluice::parallel {

namespace {

/// When an action of a device began and ended, and what the device held then: the action itself all ranks know.
struct Span {
  double start, end;
  int64_t live_bytes;
};

void write(PacketWriter& packet, const std::map<int, Tensor>& outputs) {
  packet << static_cast<int64_t>(outputs.size());
  for (const auto& [node, output] : outputs) {
    packet << node;
    write(packet, output);
  }
}

std::map<int, Tensor> read_outputs(PacketReader& packet) {
  std::map<int, Tensor> outputs;
  for (auto left = packet.read<int64_t>(); left > 0; --left) {
    const int node = packet.read<int>();
    outputs[node] = read_tensor(packet);
  }
  return outputs;
}

/// What one rank alone knows.
std::string of_this_rank(const DeviceRanks& ranks, double began, const RunResult& result) {
  PacketWriter packet;
  packet << result.losses << result.loss_weight << result.flops << result.wish << result.bytes_between_ranks << began;
  write(packet, result.outputs);
  for (int device = ranks.rank() * ranks.per_rank(), end = device + ranks.per_rank(); device < end; ++device) {
    packet << result.peak_bytes[device];
    std::vector<Span> spans;
    for (const TraceEvent& event : result.trace.events)
      if (event.device == device) spans.push_back({event.start, event.end, event.live_bytes});
    packet << spans;
  }
  return packet.take();
}

/// `shift`: to add to the rank's times.
void add_events(int device, const std::vector<Action>& actions, const std::vector<Span>& spans, double shift, Trace& trace) {
  require<CommError>(spans.size() == actions.size(), "control message: needs times of ", actions.size(), " actions, got ", spans.size(),
                     "; are all ranks of one build?");
  for (size_t i = 0; i < spans.size(); ++i)
    trace.events.push_back({device, actions[i], spans[i].start + shift, spans[i].end + shift, spans[i].live_bytes});
}

/// Losses and outputs come from the ranks of the last stages, in the order of their replicas, which is that of micro-batches; each of these
/// ranks knows the weight of all.
void add(const std::string& bytes, int rank, const DeviceRanks& ranks, const Program& program, double began, RunResult& result) {
  PacketReader packet(bytes);
  for (const double loss : packet.read<std::vector<double>>()) result.losses.push_back(loss);
  result.loss_weight = std::max(result.loss_weight, packet.read<double>());
  result.flops += packet.read<double>();
  result.wish.signal = std::max(result.wish.signal, packet.read<Wish>().signal);
  result.bytes_between_ranks += packet.read<int64_t>();
  const double shift = packet.read<double>() - began;
  for (auto& [node, output] : read_outputs(packet)) {
    Tensor& all = result.outputs[node];
    all = all.defined() ? concat({all, output}, 0) : std::move(output);
  }
  for (int device = rank * ranks.per_rank(), end = device + ranks.per_rank(); device < end; ++device) {
    packet >> result.peak_bytes[device];
    add_events(device, program.devices[device], packet.read<std::vector<Span>>(), shift, result.trace);
  }
}

std::string of_all(const RunResult& result) {
  PacketWriter packet;
  packet << result.loss << result.loss_weight << result.flops << result.wish << result.bytes_between_ranks << result.trace.seconds
         << result.bubble << result.peak_bytes;
  write(packet, result.outputs);
  return packet.take();
}

void take_over(const std::string& bytes, RunResult& result) {
  PacketReader packet(bytes);
  packet >> result.loss >> result.loss_weight >> result.flops >> result.wish >> result.bytes_between_ranks >> result.trace.seconds >>
      result.bubble >> result.peak_bytes;
  result.outputs = read_outputs(packet);
}

}  // namespace

void share(Group& group, const DeviceRanks& ranks, const Program& program, double began, RunResult& result) {
  const auto all = gather(group, group.is_root() ? "" : of_this_rank(ranks, began, result));
  for (int rank = 1; group.is_root() && rank < group.size(); ++rank) add(all[rank], rank, ranks, program, began, result);
  if (group.is_root()) {
    for (const TraceEvent& event : result.trace.events) result.trace.seconds = std::max(result.trace.seconds, event.end);
    result.bubble = result.trace.bubble();
    result.loss = std::accumulate(result.losses.begin(), result.losses.end(), 0.0);
  }
  const std::string shared = broadcast(group, group.is_root() ? of_all(result) : "");
  if (!group.is_root()) take_over(shared, result);
}

}  // namespace sluice::parallel
