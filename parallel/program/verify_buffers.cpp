#include <unordered_map>
#include <utility>

#include "parallel/program/verify_rules.h"

namespace sluice::parallel {

namespace {

std::vector<Buffer> received_buffers(const std::vector<Transfer>& transfers, int micro_batch) {
  std::vector<Buffer> buffers;
  for (const Transfer& transfer : transfers) buffers.push_back(received_buffer(transfer, micro_batch));
  return buffers;
}

std::vector<Buffer> sent_buffers(const std::vector<Transfer>& transfers, int micro_batch) {
  std::vector<Buffer> buffers;
  for (const Transfer& transfer : transfers) buffers.push_back(sent_buffer(transfer, micro_batch));
  return buffers;
}

std::string name_of(const Buffer& buffer, const Topology& topology) {
  if (buffer.kind == Buffer::Kind::shard)
    return join("the gradient shard of stage ", buffer.value, " for stage ", buffer.consumer, " held by stage ", buffer.stage);
  const Payload payload = buffer.kind == Buffer::Kind::value ? Payload::activation : Payload::gradient;
  const std::string holder = join(" held by stage ", buffer.stage, " for micro-batch ", buffer.micro_batch);
  if (buffer.kind == Buffer::Kind::tape) return "the tape" + holder;
  return "the " + describe_payload({payload, buffer.value, buffer.consumer}, topology) + holder;
}

struct BufferHash {
  std::size_t operator()(const Buffer& buffer) const {
    return hash_numbers({static_cast<int>(buffer.kind), buffer.stage, buffer.micro_batch, buffer.value, buffer.consumer});
  }
};

/// Follows the buffers of one device through its list.
class Lives {
 public:
  Lives(const Trial& trial, int device) : trial_(trial), device_(device), actions_(trial.program.devices[device]) {}

  std::optional<Violation> check() {
    for (index_ = 0; index_ < static_cast<int>(actions_.size()); ++index_) {
      for (const Buffer& buffer : needs(actions_[index_]))
        if (auto found = require_alive(buffer, "uses ")) return found;
      for (const Buffer& buffer : makes(actions_[index_])) lives_.try_emplace(buffer, Life{index_});
      for (const Buffer& buffer : actions_[index_].frees) {
        if (auto found = require_alive(buffer, "frees ")) return found;
        lives_[buffer].freed_at = index_;
      }
    }
    return find_leak();
  }

 private:
  struct Life {
    int made_at = -1;
    int freed_at = -1;
  };

  std::vector<Buffer> needs(const Action& action) const {
    switch (action.kind) {
      case ActionKind::forward:
        return received_buffers(flow(action).activations_in, action.micro_batch);
      case ActionKind::recompute:
        return with_tape(received_buffers(flow(action).recompute_inputs, action.micro_batch), action);
      case ActionKind::backward:
      case ActionKind::input_gradient:
        return with_tape(received_buffers(flow(action).gradients_in, action.micro_batch), action);
      case ActionKind::weight_gradient:
        return with_tape({}, action);
      case ActionKind::send:
      case ActionKind::send_wait:
        if (action.transfer.has_buffers()) return {sent_buffer(action.transfer, action.micro_batch)};
        return {};
      case ActionKind::fold_shards:
        return folded_buffers(flow(action), action.stage);
      default:
        return {};
    }
  }

  std::vector<Buffer> makes(const Action& action) const {
    switch (action.kind) {
      case ActionKind::forward: {
        auto buffers = sent_buffers(flow(action).activations_out, action.micro_batch);
        return trial_.program.training ? with_tape(std::move(buffers), action) : buffers;
      }
      case ActionKind::backward:
      case ActionKind::input_gradient:
        return sent_buffers(flow(action).gradients_out, action.micro_batch);
      case ActionKind::recv:
        if (action.transfer.has_buffers()) return {received_buffer(action.transfer, action.micro_batch)};
        return {};
      case ActionKind::shard_gradients: {
        auto buffers = sent_buffers(flow(action).shards_out, -1);
        buffers.push_back(shard_buffer(action.stage, action.stage, action.stage));
        return buffers;
      }
      default:
        return {};
    }
  }

  const StageFlow& flow(const Action& action) const { return trial_.flow.stages[action.stage]; }

  static std::vector<Buffer> with_tape(std::vector<Buffer> buffers, const Action& action) {
    buffers.push_back(tape_buffer(action.stage, action.micro_batch));
    return buffers;
  }

  std::optional<Violation> require_alive(const Buffer& buffer, std::string_view verb) const {
    const auto life = lives_.find(buffer);
    if (life == lives_.end())
      return trial_.violation(device_, index_, verb, name_of(buffer, trial_.topology),
                              ", which is not there: it must be made or received before");
    if (life->second.freed_at < 0) return {};
    return trial_.violation(device_, index_, verb, name_of(buffer, trial_.topology), ", which ",
                            describe(actions_[life->second.freed_at], trial_.topology), " has freed: nothing is touched after it is freed");
  }

  /// The first made of those that nobody frees.
  std::optional<Violation> find_leak() const {
    const std::pair<const Buffer, Life>* leak = nullptr;
    for (const auto& entry : lives_) {
      if (entry.second.freed_at >= 0) continue;
      const auto order = [](const auto& e) { return std::pair(e.second.made_at, e.first); };
      if (!leak || order(entry) < order(*leak)) leak = &entry;
    }
    if (!leak) return {};
    return trial_.violation(device_, leak->second.made_at, "makes ", name_of(leak->first, trial_.topology),
                            ", which is never freed: every buffer is freed once");
  }

  const Trial& trial_;
  const int device_;
  const std::vector<Action>& actions_;
  int index_ = 0;
  std::unordered_map<Buffer, Life, BufferHash> lives_;
};

}  // namespace

std::optional<Violation> check_buffers(const Trial& trial) {
  for (int device = 0; device < trial.program.device_count(); ++device)
    if (auto found = Lives(trial, device).check()) return found;
  return {};
}

}  // namespace sluice::parallel
