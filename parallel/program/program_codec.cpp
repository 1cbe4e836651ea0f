#include "parallel/program/program_codec.h"

#include "parallel/program/byte_stream.h"

namespace sluice::parallel {

namespace {

constexpr std::string_view kProgramMagic = "SlPr";
constexpr int64_t kProgramVersion = 2;
constexpr std::size_t kLeastBuffer = 5, kLeastAction = 12;  // bytes: one a field

void write(ByteWriter& out, const Transfer& transfer) {
  out.choice(transfer.payload);
  for (const int number : {transfer.value, transfer.consumer, transfer.from, transfer.to}) out.number(number);
}

Transfer read_transfer(ByteReader& in) {
  Transfer transfer;
  transfer.payload = in.choice(Payload::statistics);
  for (int* number : {&transfer.value, &transfer.consumer, &transfer.from, &transfer.to}) *number = in.integer();
  return transfer;
}

void write(ByteWriter& out, const Buffer& buffer) {
  out.choice(buffer.kind);
  for (const int number : {buffer.stage, buffer.micro_batch, buffer.value, buffer.consumer}) out.number(number);
}

Buffer read_buffer(ByteReader& in) {
  Buffer buffer{};
  buffer.kind = in.choice(Buffer::Kind::shard);
  for (int* number : {&buffer.stage, &buffer.micro_batch, &buffer.value, &buffer.consumer}) *number = in.integer();
  return buffer;
}

void write(ByteWriter& out, const Action& action) {
  out.choice(action.kind);
  out.number(action.stage);
  out.number(action.micro_batch);
  write(out, action.transfer);
  out.count(action.frees.size());
  for (const Buffer& buffer : action.frees) write(out, buffer);
  for (const int64_t bytes : {action.bytes, action.peak_bytes, action.live_bytes}) out.number(bytes);
}

Action read_action(ByteReader& in) {
  Action action{};
  action.kind = in.choice(ActionKind::step);
  action.stage = in.integer();
  action.micro_batch = in.integer();
  action.transfer = read_transfer(in);
  action.frees.resize(in.count(kLeastBuffer));
  for (Buffer& buffer : action.frees) buffer = read_buffer(in);
  for (int64_t* bytes : {&action.bytes, &action.peak_bytes, &action.live_bytes}) *bytes = in.number();
  return action;
}

}  // namespace

std::string encode(const Program& program) {
  ByteWriter out(kProgramMagic, kProgramVersion);
  out.text(program.schedule);
  out.integers(program.partition.sizes);
  out.number(program.replication.replicas);
  out.number(program.replication.fold_blocks);
  out.flag(program.replication.shards_optimizer);
  out.number(program.micro_batches);
  out.flag(program.training);
  out.integers(program.device_of_stage);
  out.flags(program.rematerialize);
  out.flag(program.is_counted);
  out.count(program.devices.size());
  for (const auto& actions : program.devices) {
    out.count(actions.size());
    for (const Action& action : actions) write(out, action);
  }
  return std::move(out).take();
}

Program decode_program(std::string_view bytes) {
  ByteReader in("program", bytes, kProgramMagic, kProgramVersion);
  Program program;
  program.schedule = in.text();
  program.partition.sizes = in.integers();
  program.replication.replicas = in.integer();
  program.replication.fold_blocks = in.integer();
  program.replication.shards_optimizer = in.flag();
  program.micro_batches = in.integer();
  program.training = in.flag();
  program.device_of_stage = in.integers();
  program.rematerialize = in.flags();
  program.is_counted = in.flag();
  program.devices.resize(in.count(1));
  for (auto& actions : program.devices) {
    actions.resize(in.count(kLeastAction));
    for (Action& action : actions) action = read_action(in);
  }
  in.finish();
  return program;
}

}  // namespace sluice::parallel
