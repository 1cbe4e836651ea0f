#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "parallel/program/dataflow.h"

/// Runs a program on numbers that stand for the contents of tensors: equal ends mean that the same was computed from the same, in the same
/// order of sums. It shares no rule with `verify`, so it judges which damaged programs are right by luck.
/// A channel between two devices is a queue of sends and one of posts: the first of both meet, whatever they are meant for, and only then
/// Recv and SendWait go on.
namespace sluice::parallel {

class SymbolicRun {
 public:
  SymbolicRun(const Topology& topology, const Program& program)
      : topology_(topology),
        program_(program),
        flow_(dataflow({topology, program.partition, program.device_of_stage, program.rematerialize, program.device_count(),
                        program.training, program.replication})),
        stages_(program.stage_count()),
        devices_(program.devices.size()) {}

  /// What all weights and statistics come to; nothing when an action lacks what it needs, a list stands still or something is left over.
  std::optional<std::vector<std::size_t>> end() {
    std::vector<std::size_t> position(program_.devices.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int device = 0; device < program_.device_count(); ++device)
        for (const auto& list = program_.devices[device]; position[device] < list.size(); ++position[device], moved = true) {
          const Action& action = list[position[device]];
          if (waits(device, action)) break;
          run(device, action);
          if (failed_) return {};
        }
    }
    for (int device = 0; device < program_.device_count(); ++device)
      if (position[device] < program_.devices[device].size()) return {};
    return left_over() ? std::nullopt : std::optional(results());
  }

 private:
  using Key = std::pair<Transfer, int>;
  struct Tape {
    std::size_t content = 0;
    bool whole = false, has_inputs_done = false;
  };
  struct Stage {
    std::map<Buffer, std::size_t> buffers;
    std::map<int, Tape> tapes;
    std::set<int> forwards;
    std::map<int, std::size_t> gradients;                         // by tied parameter; -1 for all others
    std::map<std::tuple<int, int, int>, std::size_t> tied_parts;  // by tied parameter, node and sender
    std::map<std::pair<int, int>, std::size_t> tied_weights;      // by tied parameter and sender
    std::map<std::pair<Payload, int>, std::size_t> of_replicas;   // sums, statistics and weights by sender
    std::size_t folded = 0;
    std::size_t outputs = 0, statistics = 0, weights = 0;
    int commits = 0;
  };
  struct Device {
    std::optional<std::size_t> part, norm;
    std::map<int, std::size_t> parts;
    int steps = 0;
  };

  static std::size_t mix(std::initializer_list<std::size_t> parts) {
    std::size_t hash = 7;
    for (std::size_t part : parts) hash = hash * 1099511628211ull + part + (hash >> 31);
    return hash;
  }

  struct Channel {
    std::deque<std::pair<Key, std::size_t>> sent;
    std::deque<Key> posted;
  };

  static Key key(const Action& action) { return {action.transfer, action.micro_batch}; }

  bool waits(int device, const Action& action) const {
    if (action.kind == ActionKind::recv) return !mail_.contains(key(action));
    return action.kind == ActionKind::send_wait && !done_.contains({device, key(action)});
  }

  int device_at(const Transfer& t, int end) const {
    const int count = t.between_devices() ? program_.device_count() : program_.stage_count();
    return end < 0 || end >= count ? -1 : t.between_devices() ? end : program_.device_of_stage[end];
  }

  /// The first sent and the first posted of a channel meet.
  void meet(int from, int to) {
    Channel& channel = channels_[{from, to}];
    while (!channel.sent.empty() && !channel.posted.empty()) {
      const auto [sent, content] = channel.sent.front();
      if (!mail_.emplace(channel.posted.front(), content).second || !done_.insert({from, sent}).second) fail();
      channel.sent.pop_front();
      channel.posted.pop_front();
    }
  }

  bool fail() {
    failed_ = true;
    return false;
  }

  bool is_stage(int stage, int device) const {
    return stage >= 0 && stage < program_.stage_count() && program_.device_of_stage[stage] == device;
  }

  void run(int device, const Action& action) {
    const bool whole_device = action.kind == ActionKind::gradient_norm || action.kind == ActionKind::reduce_norm ||
                              action.kind == ActionKind::step || action.transfer.between_devices();
    if (whole_device ? action.stage >= 0 : !is_stage(action.stage, device)) return void(fail());
    if (action.kind == ActionKind::send)
      send(device, action);
    else if (action.kind == ActionKind::recv)
      receive(device, action);
    else if (action.kind == ActionKind::recv_post)
      post(device, action);
    else if (action.kind == ActionKind::send_wait)
      finish_send(device, action);
    else if (action.kind <= ActionKind::recompute)
      compute(stages_[action.stage], action);
    else
      finish(device, action);
    for (const Buffer& buffer : action.frees) free(device, buffer);
  }

  std::size_t sum_of(Stage& stage, const std::vector<Transfer>& transfers, int micro_batch) {
    std::size_t sum = 11;
    for (const Transfer& transfer : transfers) {
      const auto found = stage.buffers.find(received_buffer(transfer, micro_batch));
      if (found == stage.buffers.end())
        fail();
      else
        sum = mix({sum, found->second});
    }
    return sum;
  }

  void make(Stage& stage, const std::vector<Transfer>& transfers, int micro_batch, std::size_t content) {
    for (const Transfer& transfer : transfers)
      stage.buffers[sent_buffer(transfer, micro_batch)] =
          mix({content, static_cast<std::size_t>(transfer.value), static_cast<std::size_t>(transfer.consumer + 1)});
  }

  void compute(Stage& stage, const Action& action) {
    const StageFlow& flow = flow_.stages[action.stage];
    const int m = action.micro_batch;
    if (m < 0 || m >= program_.micro_batches) return void(fail());
    const auto tape = stage.tapes.find(m);
    if (action.kind == ActionKind::forward) {
      if (!stage.forwards.insert(m).second) return void(fail());
      const std::size_t content =
          mix({sum_of(stage, flow.activations_in, m), static_cast<std::size_t>(action.stage), static_cast<std::size_t>(m)});
      make(stage, flow.activations_out, m, content);
      stage.outputs += content;
      if (program_.training) stage.tapes[m] = {content, !flow.recomputes, false};
      return;
    }
    if (!program_.training || tape == stage.tapes.end()) return void(fail());
    if (action.kind == ActionKind::recompute) {
      if (tape->second.whole || !flow.recomputes) return void(fail());
      sum_of(stage, flow.recompute_inputs, m);
      tape->second.whole = true;
      return;
    }
    const bool is_weight = action.kind == ActionKind::weight_gradient;
    if (!tape->second.whole || tape->second.has_inputs_done != is_weight) return void(fail());
    if (!is_weight) {
      tape->second.content = mix({tape->second.content, sum_of(stage, flow.gradients_in, m)});
      make(stage, flow.gradients_out, m, tape->second.content);
      tape->second.has_inputs_done = true;
    }
    if (action.kind == ActionKind::input_gradient) return;
    if (stage.weights != 0) return void(fail());
    for (int tied = -1; tied < static_cast<int>(topology_.tied.size()); ++tied)
      stage.gradients[tied] = mix({stage.gradients[tied], tape->second.content});
    tape->second.whole = false;
  }

  void send(int device, const Action& action) {
    const Transfer& t = action.transfer;
    std::optional<std::size_t> content;
    if (t.has_buffers()) {
      const auto found = stages_[action.stage].buffers.find(sent_buffer(t, action.micro_batch));
      if (found != stages_[action.stage].buffers.end()) content = found->second;
    } else if (t.payload == Payload::norm_part) {
      content = devices_[device].part;
    } else if (t.payload == Payload::norm) {
      content = devices_[device].norm;
    } else if (t.payload == Payload::tied_gradient) {
      content = mix({stages_[action.stage].gradients[t.value], static_cast<std::size_t>(t.consumer)});
    } else if (t.payload == Payload::tied_weight && stages_[action.stage].weights != 0) {
      content = mix({stages_[action.stage].weights, static_cast<std::size_t>(t.value)});
    } else if (t.payload == Payload::weight_shard && stages_[action.stage].weights != 0) {
      content = stages_[action.stage].weights;
    } else if (t.payload == Payload::gradient_sum) {
      content = sum_of_stage(stages_[action.stage]);
    } else if (t.payload == Payload::statistics) {
      content = stages_[action.stage].outputs;
    }
    const int to = device_at(t, t.to);
    const bool is_sender = t.between_devices() ? t.from == device : t.from == action.stage;
    if (!content || to < 0 || to >= program_.device_count() || !is_sender) return void(fail());
    if (to == device) return void(mail_.emplace(key(action), *content).second || fail());
    channels_[{device, to}].sent.push_back({key(action), *content});
    meet(device, to);
  }

  void post(int device, const Action& action) {
    const Transfer& t = action.transfer;
    const int from = device_at(t, t.from);
    if (from < 0 || from == device || (t.between_devices() ? t.to != device : t.to != action.stage)) return void(fail());
    channels_[{from, device}].posted.push_back(key(action));
    meet(from, device);
  }

  /// What was sent has to be there until now.
  void finish_send(int device, const Action& action) {
    done_.erase({device, key(action)});
    const bool is_kept =
        !action.transfer.has_buffers() || stages_[action.stage].buffers.contains(sent_buffer(action.transfer, action.micro_batch));
    if (!is_kept) fail();
  }

  void receive(int device, const Action& action) {
    const Transfer& t = action.transfer;
    const std::size_t content = mail_.extract(key(action)).mapped();
    if (t.between_devices() ? t.to != device : t.to != action.stage) return void(fail());
    if (t.has_buffers()) {
      if (!stages_[action.stage].buffers.emplace(received_buffer(t, action.micro_batch), content).second) fail();
    } else if (t.payload == Payload::norm_part) {
      devices_[device].parts[t.from] = content;
    } else if (t.payload == Payload::norm) {
      devices_[device].norm = content;
    } else if (t.payload == Payload::tied_gradient) {
      stages_[action.stage].tied_parts[{t.value, t.consumer, t.from}] = content;
    } else if (t.payload == Payload::tied_weight) {
      stages_[action.stage].tied_weights[{t.value, t.from}] = content;
    } else if (!stages_[action.stage].of_replicas.emplace(std::pair(t.payload, t.from), content).second) {
      fail();
    }
  }

  static std::size_t sum_of_stage(const Stage& stage) {
    std::size_t sum = stage.folded;
    for (const auto& [tied, gradient] : stage.gradients) sum = mix({sum, gradient});
    return sum;
  }

  /// What other replicas have sent so far.
  static std::size_t of_replicas(const Stage& stage, Payload payload) {
    std::size_t sum = 23;
    for (const auto& [from, content] : stage.of_replicas)
      if (from.first == payload) sum = mix({sum, static_cast<std::size_t>(from.second), content});
    return sum;
  }

  void make_shards(int number) {
    Stage& stage = stages_[number];
    auto shards = flow_.stages[number].shards_out;
    shards.push_back({Payload::gradient_shard, -1, -1, number, number});
    for (const Transfer& shard : shards)
      if (!stage.buffers.emplace(sent_buffer(shard, -1), mix({stage.gradients[-1], static_cast<std::size_t>(shard.to)})).second) fail();
  }

  void fold(int number) {
    Stage& stage = stages_[number];
    for (const Buffer& buffer : folded_buffers(flow_.stages[number], number)) {
      if (!stage.buffers.contains(buffer)) return void(fail());
      stage.folded = mix({stage.folded, stage.buffers[buffer]});
    }
  }

  void finish(int device, const Action& action) {
    if (action.kind == ActionKind::shard_gradients) return make_shards(action.stage);
    if (action.kind == ActionKind::fold_shards) return fold(action.stage);
    Device& d = devices_[device];
    const auto stages_here = [&](auto visit) {
      for (int s = 0; s < program_.stage_count(); ++s)
        if (program_.device_of_stage[s] == device) visit(stages_[s]);
    };
    if (action.kind == ActionKind::reduce_tied) {
      Stage& stage = stages_[action.stage];
      std::size_t sum = stage.gradients[action.transfer.value];
      for (const auto& [use, part] : stage.tied_parts)
        if (std::get<0>(use) == action.transfer.value) sum = mix({sum, part});
      stage.gradients[action.transfer.value] = mix({sum, 17});
      std::erase_if(stage.tied_parts, [&](const auto& part) { return std::get<0>(part.first) == action.transfer.value; });
    } else if (action.kind == ActionKind::gradient_norm) {
      if (d.part) return void(fail());
      d.part = 19;
      stages_here([&](Stage& stage) { d.part = mix({*d.part, sum_of_stage(stage)}); });
    } else if (action.kind == ActionKind::reduce_norm) {
      if (!d.part) return void(fail());
      d.norm = d.part;
      for (const auto& [from, part] : d.parts) d.norm = mix({*d.norm, static_cast<std::size_t>(from), part});
      d.parts.clear();
    } else if (action.kind == ActionKind::commit_statistics) {
      Stage& stage = stages_[action.stage];
      if (!d.norm || stage.commits++ > 0) return void(fail());
      stage.statistics = mix({*d.norm, stage.outputs, of_replicas(stage, Payload::statistics)});
    } else {
      if (!d.norm || d.steps++ > 0) return void(fail());
      stages_here([&](Stage& stage) { stage.weights = mix({*d.norm, sum_of_stage(stage), of_replicas(stage, Payload::gradient_sum)}); });
    }
  }

  void free(int device, const Buffer& buffer) {
    if (!is_stage(buffer.stage, device)) return void(fail());
    Stage& stage = stages_[buffer.stage];
    const bool is_tape = buffer.kind == Buffer::Kind::tape;
    if (is_tape ? stage.tapes.erase(buffer.micro_batch) == 0 || buffer.value != -1 || buffer.consumer != -1
                : stage.buffers.erase(buffer) == 0)
      fail();
  }

  bool left_over() const {
    bool left = !mail_.empty() || !done_.empty();
    for (const auto& [ends, channel] : channels_) left = left || !channel.sent.empty() || !channel.posted.empty();
    for (std::size_t number = 0; number < stages_.size(); ++number) {
      const Stage& stage = stages_[number];
      left = left || !stage.buffers.empty() || !stage.tapes.empty() || !stage.tied_parts.empty() ||
             static_cast<int>(stage.forwards.size()) != program_.micro_batches_of(static_cast<int>(number)).count();
    }
    for (const Device& device : devices_) left = left || !device.parts.empty();
    return left;
  }

  std::vector<std::size_t> results() const {
    std::vector<std::size_t> all;
    for (const Stage& stage : stages_) {
      all.insert(all.end(), {stage.outputs, stage.statistics, stage.weights});
      for (const auto& [tied, weight] : stage.tied_weights)
        all.push_back(mix({static_cast<std::size_t>(tied.first), static_cast<std::size_t>(tied.second), weight}));
      all.push_back(of_replicas(stage, Payload::weight_shard));
      for (const auto& [tied, gradient] : stage.gradients) all.push_back(gradient);
    }
    return all;
  }

  const Topology& topology_;
  const Program& program_;
  const Dataflow flow_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  std::map<Key, std::size_t> mail_;                  // arrived
  std::set<std::pair<int, Key>> done_;               // sent and arrived, by sender
  std::map<std::pair<int, int>, Channel> channels_;  // by sender and receiver
  bool failed_ = false;
};

}  // namespace sluice::parallel
