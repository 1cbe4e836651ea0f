#include "tests/parallel/transfer_run.h"

#include <exception>
#include <thread>

#include "core/ops/copy.h"

namespace sluice::testing {

using namespace parallel;

namespace {

constexpr double kSeconds = 60;

/// Nobody's elements.
void spoil(Tensor tensor) { copy(full(tensor.shape(), -1, DType::f32, tensor.device_ptr()), tensor); }

Tensor made(const MessageKey& key, int elements, const DevicePtr& device) {
  std::vector<double> values(elements);
  const auto first = static_cast<double>(hash_of(key.transfer, key.micro_batch) % 1000);
  for (int i = 0; i < elements; ++i) values[i] = first + i;
  return tensor_of(values, {elements}, DType::f32, device);
}

}  // namespace

TransferRun::TransferRun(Program program, int smallest, int largest)
    : program_(std::move(program)), smallest_(smallest), largest_(largest) {}

bool TransferRun::is_left_out(const MessageKey& key) const {
  return key.transfer.payload == Payload::gradient && hash_of(key.transfer, key.micro_batch) % 3 == 0;
}

int TransferRun::elements_of(const MessageKey& key) const {
  return smallest_ + static_cast<int>(hash_of(key.transfer, 0) % static_cast<size_t>(largest_ - smallest_ + 1));
}

TransferRun::Arrived TransferRun::alone(const std::function<DevicePtr(int)>& device) const {
  std::vector<DevicePtr> devices;
  for (int i = 0; i < program_.device_count(); ++i) devices.push_back(device(i));
  return on_rank(devices, DeviceRanks(program_.device_count()), *make_local_transport(program_.device_count()));
}

TransferRun::Arrived TransferRun::on_rank(const std::vector<DevicePtr>& devices, const DeviceRanks& ranks, Transport& transport) const {
  std::vector<Arrived> arrived(devices.size());
  std::vector<std::exception_ptr> errors(devices.size());
  {
    std::vector<std::jthread> threads;
    for (int device = 0; device < program_.device_count(); ++device)
      if (ranks.is_here(device))
        threads.emplace_back([&, device] {
          try {
            arrived[device] = run_device(device, devices, ranks, transport);
          } catch (const std::exception& error) {
            errors[device] = std::current_exception();
            transport.close(error.what());
          }
        });
  }
  Arrived all;
  for (size_t device = 0; device < devices.size(); ++device) {
    if (errors[device]) std::rethrow_exception(errors[device]);
    all.merge(arrived[device]);
  }
  return all;
}

TransferRun::Arrived TransferRun::run_device(int index, const std::vector<DevicePtr>& devices, const DeviceRanks& ranks,
                                             Transport& transport) const {
  const DevicePtr& device = devices[index];
  std::map<MessageKey, Tensor> sent, came;
  for (const Action& action : program_.devices[index]) {
    if (!action.is_transfer()) continue;
    const ChannelEnds ends{program_.sender(action.transfer), program_.receiver(action.transfer)};
    if (ends.from == ends.to) continue;
    const MessageKey key{action.transfer, action.micro_batch};
    switch (action.kind) {
      case ActionKind::send: {
        const Tensor tensor = is_left_out(key) ? Tensor() : made(key, elements_of(key), device);
        sent[key] = tensor;
        transport.send(ends, key, {tensor, {device->record()}, 0});
        break;
      }
      case ActionKind::recv_post: {
        const Shape shape{elements_of(key)};
        Tensor room =
            ranks.is_here(ends.from) ? room_for(shape, DType::f32, device, *devices[ends.from]) : room_for(shape, DType::f32, device);
        if (!ranks.is_here(ends.from)) spoil(room);
        transport.post(ends, key, {device, std::move(room), {device->record()}});
        break;
      }
      case ActionKind::recv: {
        auto message = transport.receive(ends, key, kSeconds);
        require<CommError>(message.has_value(), "a receive of device ", index, " did not end");
        device->wait_for(message->ready.event);
        came[key] = message->tensor.defined() ? message->tensor.clone() : Tensor();
        break;
      }
      default: {
        const auto when = transport.finish_send(ends, key, kSeconds);
        require<CommError>(when.has_value(), "a send of device ", index, " did not end");
        device->wait_for(when->event);
        // What is handed over between devices of one memory stays the receiver's.
        if (!ranks.is_here(ends.to) && sent[key].defined()) spoil(sent[key]);
        sent.erase(key);
      }
    }
  }
  Arrived arrived;
  for (const auto& [key, tensor] : came) arrived[{index, key}] = tensor.defined() ? std::optional(tensor.to_vector()) : std::nullopt;
  device->synchronize();
  return arrived;
}

int64_t TransferRun::bytes_from_ranks(const DeviceRanks& ranks) const {
  int64_t bytes = 0;
  for (int device = 0; device < program_.device_count(); ++device)
    for (const Action& action : program_.devices[device]) {
      const MessageKey key{action.transfer, action.micro_batch};
      if (ranks.is_here(device) && action.kind == ActionKind::recv && !ranks.is_here(program_.sender(action.transfer)) && !is_left_out(key))
        bytes += 4 * elements_of(key);
    }
  return bytes;
}

}  // namespace sluice::testing
