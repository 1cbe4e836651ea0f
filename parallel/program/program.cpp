#include "parallel/program/program.h"

#include "core/error.h"

namespace sluice::parallel {

namespace {

/// A verifier describes damaged programs too, so numbers that name nothing are shown as they are.
std::string value_name(const Topology& topology, int value) {
  if (value < 0 || value >= topology.value_count()) return join("value ", value);
  const int node = topology.node_of(value);
  return join("'", node < 0 ? topology.inputs[value] : topology.nodes[node].name, "'");
}

std::string node_name(const Topology& topology, int node) {
  if (node < 0 || node >= topology.node_count()) return join("node ", node);
  return join("'", topology.nodes[node].name, "'");
}

std::string tied_name(const Topology& topology, int tied) {
  if (tied < 0 || tied >= static_cast<int>(topology.tied.size())) return join("tied parameter ", tied);
  return join("'", topology.tied[tied].parameter, "'");
}

std::string describe_ends(const Action& action) {
  const std::string of = action.micro_batch < 0 ? "" : join(" of micro-batch ", action.micro_batch);
  const auto* end = action.transfer.between_devices() ? "device " : "stage ";
  return join(of, " from ", end, action.transfer.from, " to ", end, action.transfer.to);
}

}  // namespace

bool Action::is_transfer() const {
  return kind == ActionKind::recv_post || kind == ActionKind::send || kind == ActionKind::recv || kind == ActionKind::send_wait;
}

int Action::phase() const {
  switch (kind) {
    case ActionKind::fold_shards:
      return 1;
    case ActionKind::reduce_tied:
      return 2;
    case ActionKind::gradient_norm:
      return 4;
    case ActionKind::reduce_norm:
      return 6;
    case ActionKind::commit_statistics:
      return 8;
    case ActionKind::step:
      return 9;
    default:
      break;
  }
  const bool is_end = kind == ActionKind::recv;  // a Send leaves as soon as it may
  switch (transfer.payload) {
    case Payload::gradient_shard:
    case Payload::statistics:
      return is_end ? 1 : 0;
    case Payload::tied_gradient:
      return 1;
    case Payload::gradient_sum:
      return 3;
    case Payload::norm_part:
      return 5;
    case Payload::norm:
      return 7;
    case Payload::tied_weight:
    case Payload::weight_shard:
      return 10;
    default:
      return 0;
  }
}

std::string describe(const Action& action, const Topology& topology) {
  const std::string where = join("(stage ", action.stage, ", micro-batch ", action.micro_batch, ")");
  switch (action.kind) {
    case ActionKind::forward:
      return "F" + where;
    case ActionKind::backward:
      return "B" + where;
    case ActionKind::input_gradient:
      return "I" + where;
    case ActionKind::weight_gradient:
      return "W" + where;
    case ActionKind::recompute:
      return "R" + where;
    case ActionKind::recv_post:
      return "RecvPost " + describe_payload(action.transfer, topology) + describe_ends(action);
    case ActionKind::send:
      return "Send " + describe_payload(action.transfer, topology) + describe_ends(action);
    case ActionKind::recv:
      return "Recv " + describe_payload(action.transfer, topology) + describe_ends(action);
    case ActionKind::send_wait:
      return "SendWait " + describe_payload(action.transfer, topology) + describe_ends(action);
    case ActionKind::gradient_norm:
      return "GradNorm";
    case ActionKind::reduce_norm:
      return "ReduceNorm";
    case ActionKind::reduce_tied:
      return join("ReduceTied(stage ", action.stage, ", ", tied_name(topology, action.transfer.value), ")");
    case ActionKind::shard_gradients:
      return join("ShardGrads(stage ", action.stage, ")");
    case ActionKind::fold_shards:
      return join("FoldShards(stage ", action.stage, ")");
    case ActionKind::commit_statistics:
      return join("CommitStats(stage ", action.stage, ")");
    case ActionKind::step:
      return "Step";
  }
  return {};
}

std::size_t hash_numbers(std::initializer_list<int> numbers) {
  std::uint64_t hash = 0;
  for (int number : numbers) {
    hash = (hash ^ static_cast<std::uint32_t>(number)) * 0x9E3779B97F4A7C15ull;  // 2^64 / golden ratio
    hash ^= hash >> 29;
  }
  return hash;
}

std::size_t hash_of(const Transfer& transfer, int micro_batch) {
  return hash_numbers({static_cast<int>(transfer.payload), transfer.value, transfer.consumer, transfer.from, transfer.to, micro_batch});
}

std::string describe_payload(const Transfer& transfer, const Topology& topology) {
  const std::string at = join(" at ", node_name(topology, transfer.consumer));
  switch (transfer.payload) {
    case Payload::none:
      return "nothing";
    case Payload::activation:
      return "activation " + value_name(topology, transfer.value);
    case Payload::gradient:
      return "gradient of " + value_name(topology, transfer.value) + at;
    case Payload::tied_gradient:
      return "gradient of tied " + tied_name(topology, transfer.value) + at;
    case Payload::tied_weight:
      return "tied weight " + tied_name(topology, transfer.value) + at;
    case Payload::norm_part:
      return "norm part";
    case Payload::norm:
      return "norm";
    case Payload::gradient_shard:
      return "gradient shard";
    case Payload::gradient_sum:
      return "gradient sum";
    case Payload::weight_shard:
      return "weight shard";
    case Payload::statistics:
      return "statistics";
  }
  return {};
}

}  // namespace sluice::parallel
