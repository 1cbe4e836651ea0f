#include "tests/emulated/nccl_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/cuda/nccl_version.h"
#include "emulation.h"
#include "tests/emulation/nccl.h"
#include "tests/emulation/runtime.h"

namespace sluice::emulation {

ncclUniqueId NcclRank::Ids::of(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto [place, is_new] = ids_.try_emplace(name);
  if (is_new) ncclGetUniqueId(&place->second);
  return place->second;
}

NcclRank::NcclRank(int rank, Ids& ids) : rank_(rank), ids_(ids) { EXPECT_EQ(cudaSetDevice(rank), cudaSuccess); }

/// Of ranks that were torn down nothing more can be waited for; what they leave the emulation forgets.
NcclRank::~NcclRank() {
  for (ncclComm_t communicator : communicators_) ncclCommDestroy(communicator);
  for (const auto& [number, stream] : streams_) cudaStreamDestroy(stream);
  for (void* memory : memory_) cudaFree(memory);
}

ncclComm_t NcclRank::join(const std::string& name, const std::vector<int>& ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t communicator = nullptr;
  const int mine = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  if (ncclCommInitRankConfig(&communicator, static_cast<int>(ranks.size()), ids_.of(name), mine, &config) == ncclSuccess)
    communicators_.push_back(communicator);
  return communicator;
}

void NcclRank::connect(ncclComm_t communicator, int peer) {
  ncclGroupStart();
  send(communicator, peer, 1, -1);
  receive(communicator, peer, 1, -1);
  ncclGroupEnd();
  finish(-1);
}

cudaStream_t NcclRank::stream_of(int number) {
  cudaStream_t& stream = streams_[number];
  if (!stream) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

char* NcclRank::allocate(size_t bytes) {
  char* memory = nullptr;
  cudaMalloc(&memory, bytes);
  memory_.push_back(memory);
  return memory;
}

ncclResult_t NcclRank::send(ncclComm_t communicator, int peer, size_t bytes, int stream) {
  if (!communicator) return ncclInvalidArgument;  // it was torn down
  char* const memory = allocate(bytes);
  const auto filled = sent_bytes(rank_, sends_++, bytes);
  cudaMemcpyAsync(memory, filled.data(), bytes, cudaMemcpyHostToDevice, stream_of(stream));
  return ncclSend(memory, bytes, ncclInt8, peer, communicator, stream_of(stream));
}

ncclResult_t NcclRank::receive(ncclComm_t communicator, int peer, size_t bytes, int stream) {
  if (!communicator) return ncclInvalidArgument;
  char* const memory = allocate(bytes);
  received_.emplace_back(memory, bytes);
  return ncclRecv(memory, bytes, ncclInt8, peer, communicator, stream_of(stream));
}

void NcclRank::finish(int stream) { cudaStreamSynchronize(stream_of(stream)); }

void NcclRank::finish_all() {
  for (const auto& [number, stream] : streams_) cudaStreamSynchronize(stream);
}

std::vector<unsigned char> NcclRank::received(int number) const {
  const auto& [memory, bytes] = received_.at(number);
  std::vector<unsigned char> host(bytes);
  cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost);
  return host;
}

std::vector<unsigned char> sent_bytes(int rank, int number, size_t bytes) {
  std::vector<unsigned char> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<unsigned char>(31 * rank + 7 * number + 13 * i + i / 251);
  return result;
}

bool ends(int ranks, const std::function<void(NcclRank&)>& body) {
  Runtime& state = runtime();
  NcclRank::Ids ids;
  std::atomic<int> finished = 0;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      NcclRank here(rank, ids);
      body(here);
      here.finish_all();
      ++finished;
    });
  const auto is_stuck = [&] {
    std::lock_guard lock(state.mutex);
    const int running = ranks - finished;
    if (running == 0 || state.ranks.stuck() < running) return false;
    state.ranks.tear_down();
    return true;
  };
  bool hangs = false;
  while (finished < ranks && !(hangs = is_stuck())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  threads.clear();
  std::lock_guard lock(state.mutex);
  state.ranks.reset();
  if (hangs) reset();
  return !hangs;
}

void tear_down_gpus() {
  Runtime& state = runtime();
  std::lock_guard lock(state.mutex);
  state.ranks.tear_down();
  reset();
}

void bring_back_gpus() {
  std::lock_guard lock(runtime().mutex);
  runtime().ranks.reset();
  reset();
}

void forget_nccl() {
  emulated_nccl() = {};
  install_nccl(nccl::kOldestVersion);
}

}  // namespace sluice::emulation
