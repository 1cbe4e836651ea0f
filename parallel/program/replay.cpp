#include "parallel/program/replay.h"

#include <map>

namespace sluice::parallel {

std::size_t Messages::Hash::operator()(const Key& key) const {
  const auto& [transfer, micro_batch] = key;
  return hash_of(transfer, micro_batch);
}

Messages::Messages(const Program& program) : of_action_(program.devices.size()) {
  std::size_t transfers = 0;
  for (const auto& actions : program.devices)
    for (const Action& action : actions) transfers += action.kind == ActionKind::send;
  numbers_.reserve(transfers);
  for (std::size_t device = 0; device < program.devices.size(); ++device) {
    of_action_[device].reserve(program.devices[device].size());
    for (const Action& action : program.devices[device])
      of_action_[device].push_back(action.is_transfer() ? numbers_.try_emplace({action.transfer, action.micro_batch}, count()).first->second
                                                        : -1);
  }
}

Deliveries::Deliveries(const Program& program, const Messages& messages)
    : program_(program), messages_(messages), deliveries_(messages.count()) {
  std::map<std::pair<int, int>, int> numbers;  // of channels, by sending and receiving device
  for (int device = 0; device < program.device_count(); ++device)
    for (int index = 0; index < static_cast<int>(program.devices[device].size()); ++index) {
      const Action& action = program.devices[device][index];
      if (action.kind != ActionKind::send || program.receiver(action.transfer) == device) continue;
      const auto [found, is_new] = numbers.try_emplace({device, program.receiver(action.transfer)}, static_cast<int>(channels_.size()));
      if (is_new) channels_.emplace_back();
      deliveries_[messages.of(device, index)].channel = found->second;
      channels_[found->second].messages.push_back(messages.of(device, index));
    }
}

bool Deliveries::may_run(int device, int index) const {
  const ActionKind kind = program_.devices[device][index].kind;
  const bool waits = kind == ActionKind::recv || kind == ActionKind::send_wait;
  return !waits || deliveries_[messages_.of(device, index)].is_done;
}

void Deliveries::run(int device, int index) {
  const ActionKind kind = program_.devices[device][index].kind;
  if (kind != ActionKind::send && kind != ActionKind::recv_post) return;
  Delivery& delivery = deliveries_[messages_.of(device, index)];
  (kind == ActionKind::send ? delivery.is_sent : delivery.is_posted) = true;
  advance(delivery);
}

void Deliveries::advance(Delivery& delivery) {
  if (delivery.channel < 0) {
    delivery.is_done = delivery.is_sent;
    return;
  }
  Channel& channel = channels_[delivery.channel];
  for (; channel.done < channel.messages.size(); ++channel.done) {
    Delivery& next = deliveries_[channel.messages[channel.done]];
    if (!next.is_sent || !next.is_posted) return;
    next.is_done = true;
  }
}

}  // namespace sluice::parallel
