#pragma once
#include <nccl.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sluice::emulation {

/// NCCL between emulated GPUs, with ranks as threads of one program. What hangs here in some order of calls hangs on GPUs, for messages
/// of some size:
///   all ranks of a communicator have to come to its creation, each with a GPU of its own;
///   the operations of a communicator run one after the other in the order of their calls, also on different streams, each when those before
///   it have ended and its stream has come to it;
///   a send ends when its bytes are in the FIFO of its connection, a receive when it has taken them out of there: sends up to `fifo_bytes`
///   end early, larger ones wait for their receives;
///   the n-th send of one rank to another meets its n-th receive; where their sizes differ neither ends;
///   the operations of a group run together, those to one peer in their order; where the two ends do not group alike none ends, which on
///   GPUs is undefined;
///   the first operation of a connection blocks the calling thread until the other end's first has come, those of a group together;
///   a rank sends to itself only inside of a group that also receives it.
/// Captures, and groups of one communicator over several streams, are refused: nothing of ours needs them.
/// Source  NCCL User Guide, "Point-to-point communication", "Group Calls", "Using NCCL with CUDA Graphs".
struct Nccl {
  size_t fifo_bytes = size_t{4} << 20;
  std::string failing_call;  ///< such as "ncclSend": fails as follows
  int failing_gpu = -1;      ///< where it fails; -1: on all
  ncclResult_t failure = ncclSystemError;
  ncclResult_t async_error = ncclSuccess;  ///< what ncclCommGetAsyncError tells
  /// @name What was done
  /// @{
  std::map<int, std::set<std::thread::id>> launching_threads;  ///< by GPU: those that sent or received
  std::vector<ncclConfig_t> configs;                           ///< of the communicators that were made
  int live_communicators = 0;
  size_t bytes_moved = 0;
  /// @}
};
/// Threads  any one; a test sets it before it starts its ranks.
Nccl& emulated_nccl();

/// Puts NCCL of that version on the emulated machine, 22809 at first; 0: none. No communicator may live.
void install_nccl(int version);
/// The same for the calling thread alone, as if its rank were on another machine, until it ends.
void install_nccl_for_thread(int version);

}  // namespace sluice::emulation
