#pragma once
#include <cstddef>
#include <string>

#include "core/event.h"

struct CUstream_st;
struct ncclComm;

/// NCCL, which moves bytes between GPUs of different processes. This header needs none of NVIDIA's.
namespace sluice::nccl {

/// Why there is no NCCL: not in this build, not on this machine, too old. Empty when there is one.
std::string unavailable_reason();
/// "2.28.9"; empty where there is none.
std::string library_version();

/// The name of a communicator that is to be made. One rank asks for it and gives it to the others. Errors  CommError.
std::string new_unique_id();

/// One rank of a communicator, with a stream of its own on one GPU.
///
/// NCCL runs the operations of a communicator one after the other, whatever their streams are, and an operation waits on the GPU until its
/// other end has come. So both ends make the same operations in the same order, and what must not wait for each other has communicators of
/// its own. The first operation with a peer connects to it: that one blocks the calling thread until the peer's has come.
/// Operations belong to no CUDA graph: both ends would have to capture, and replay, alike.
/// Threads  one at a time for all communicators of a GPU, because NCCL forbids that two threads launch on one GPU at once
///          (NCCL_LAUNCH_RACE_FATAL); events: any.
/// Errors   CommError naming the call, what NCCL says of it and the cure.
class Communicator {
 public:
  /// CTAs that an operation takes at most. Each occupies a multiprocessor also while it waits for the other end, and all operations that may
  /// wait at once have to fit on the GPU beside the kernels: with 4 the four channels of a device in the middle of a pipeline take 16
  /// multiprocessors of an H100's 132. NCCL counts two CTAs for one NVLink (NVIDIA/nccl#1703), so 4 carry what two NVLinks do, 50 GB/s:
  /// as much as PCIe 5.0 x16 or a network of 400 Gb/s. A power of two, as NCCL rounds it (src/graph/paths.cc, ncclTopoComputeP2pChannels).
  static constexpr int kMostCtas = 4;

  /// Returns when all `ranks` have come.
  Communicator(int gpu, const std::string& unique_id, int ranks, int rank);
  /// Waits for the operations, unless it is abandoned.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Sends from, or receives into, memory of the GPU when `ready` has passed. Returns the event at which the operation has ended.
  Event send(const void* memory, size_t bytes, int peer, const Event& ready);
  Event receive(void* memory, size_t bytes, int peer, const Event& ready);
  /// Sends to this rank itself, which NCCL allows only together with the receive.
  Event send_to_self(const void* from, void* to, size_t bytes, const Event& ready, const Event& free);

  /// Throws what NCCL met meanwhile in the network, of which no call has told.
  void check() const;
  /// From now on nothing is waited for: operations may be under way that never end, and nothing ends them but the end of the process.
  /// NCCL's own way, ncclCommAbort, can hang itself (NVIDIA/nccl#549, #829).
  void abandon() noexcept { is_abandoned_ = true; }

 private:
  void wait_for(const Event& event) const;
  Event record() const;

  int gpu_;
  CUstream_st* stream_ = nullptr;
  ncclComm* communicator_ = nullptr;
  bool is_abandoned_ = false;
};

}  // namespace sluice::nccl
