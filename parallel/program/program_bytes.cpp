#include "parallel/program/program_bytes.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace sluice::parallel {

namespace {

int64_t at(const std::vector<int64_t>& list, int index, std::string_view name) {
  if (list.empty()) return 0;
  require(index >= 0 && index < static_cast<int>(list.size()), "program bytes: needs ", name, "[", index, "], got ", list.size(),
          " entries; give all or none");
  return list[index];
}

/// The buffers of one device as one number, and the size of each tape.
class Ledger {
 public:
  Ledger(const Program& program, const ProgramBytes& bytes, int device)
      : program_(program),
        bytes_(bytes),
        micro_batches_(program.micro_batches),
        training_(program.training),
        live_(at(bytes.always, device, "always")) {
    for (const Action& action : program.devices[device])
      if (action.kind == ActionKind::send && action.micro_batch == 0) add_sent(action.transfer);
  }

  BytesAt run(const Action& action) {
    const int64_t scratch = make(action);
    const int64_t peak = live_ + scratch;
    if (action.kind == ActionKind::input_gradient) set_tape(action, at(bytes_.tape_for_weights, action.stage, "tape_for_weights"));
    for (const Buffer& buffer : action.frees) live_ -= size_of(buffer);
    return {peak, live_};
  }

 private:
  /// A value or gradient that goes to several stages is one buffer.
  void add_sent(const Transfer& transfer) {
    if (!transfer.of_micro_batch()) return;
    const bool forward = transfer.payload == Payload::activation;
    const std::pair key{transfer.value, forward ? -1 : transfer.consumer};
    if (seen_.emplace(transfer.from, key).second)
      (forward ? sent_forward_ : sent_backward_)[transfer.from] += at(bytes_.value, transfer.value, "value");
  }

  /// Adds what the action makes; returns what it needs beyond that while it runs.
  int64_t make(const Action& action) {
    const int stage = action.stage;
    switch (action.kind) {
      case ActionKind::forward:
        live_ += sent_forward_[stage];
        if (training_) set_tape(action, at(bytes_.tape, stage, "tape"));
        return at(bytes_.forward_scratch, stage, "forward_scratch");
      case ActionKind::recompute:
        if (!bytes_.tape_recomputed.empty()) set_tape(action, at(bytes_.tape_recomputed, stage, "tape_recomputed"));
        return at(bytes_.recompute_scratch, stage, "recompute_scratch");
      case ActionKind::backward:
      case ActionKind::input_gradient:
        live_ += sent_backward_[stage];
        return at(bytes_.backward_scratch, stage, "backward_scratch");
      case ActionKind::weight_gradient:
        return at(bytes_.weight_scratch, stage, "weight_scratch");
      case ActionKind::recv_post:
        receive(action.transfer);
        return 0;
      case ActionKind::recv:
        if (program_.sender(action.transfer) == program_.receiver(action.transfer)) receive(action.transfer);
        return 0;
      default:
        return 0;
    }
  }

  void receive(const Transfer& transfer) {
    if (transfer.of_micro_batch()) live_ += at(bytes_.value, transfer.value, "value");
  }

  int64_t& tape(int stage, int micro_batch) {
    auto& tapes = tapes_[stage];
    tapes.resize(micro_batches_);
    return tapes.at(micro_batch);
  }

  void set_tape(const Action& action, int64_t size) {
    int64_t& tape_size = tape(action.stage, action.micro_batch);
    live_ += size - tape_size;
    tape_size = size;
  }

  int64_t size_of(const Buffer& buffer) {
    if (buffer.kind == Buffer::Kind::tape) return std::exchange(tape(buffer.stage, buffer.micro_batch), 0);
    return at(bytes_.value, buffer.value, "value");
  }

  const Program& program_;
  const ProgramBytes& bytes_;
  const int micro_batches_;
  const bool training_;
  int64_t live_;
  std::set<std::pair<int, std::pair<int, int>>> seen_;
  std::map<int, int64_t> sent_forward_, sent_backward_;  // by stage
  std::map<int, std::vector<int64_t>> tapes_;            // by stage and micro-batch
};

}  // namespace

std::vector<BytesAt> bytes_of(const Program& program, const ProgramBytes& bytes, int device) {
  Ledger ledger(program, bytes, device);
  std::vector<BytesAt> all;
  all.reserve(program.devices[device].size());
  for (const Action& action : program.devices[device]) all.push_back(ledger.run(action));
  return all;
}

}  // namespace sluice::parallel
