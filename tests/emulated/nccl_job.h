#pragma once
#include <nccl.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace sluice::emulation {

/// One rank of a test, on a GPU of its own, that calls NCCL itself. Every operation has memory of its own: sends send bytes that follow from
/// rank and number, receives keep what comes.
class NcclRank {
 public:
  class Ids;
  NcclRank(int rank, Ids& ids);
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  int rank() const { return rank_; }
  /// Of the ranks that are listed, in that order; all of them join by one name.
  ncclComm_t join(const std::string& name, const std::vector<int>& ranks);
  /// Of two ranks: moves a byte in both directions, in one group.
  void connect(ncclComm_t communicator, int peer);

  /// `stream`  the number of one of this rank's; made at its first use.
  ncclResult_t send(ncclComm_t communicator, int peer, size_t bytes, int stream = 0);
  ncclResult_t receive(ncclComm_t communicator, int peer, size_t bytes, int stream = 0);
  /// Blocks until the stream's work is done.
  void finish(int stream = 0);
  void finish_all();
  /// What the n-th receive got, after finish().
  std::vector<unsigned char> received(int number) const;

 private:
  cudaStream_t stream_of(int number);
  char* allocate(size_t bytes);

  const int rank_;
  Ids& ids_;
  int sends_ = 0;
  std::map<int, cudaStream_t> streams_;
  std::vector<ncclComm_t> communicators_;
  std::vector<void*> memory_;
  std::vector<std::pair<char*, size_t>> received_;
};

/// Unique ids by the names of communicators.
class NcclRank::Ids {
 public:
  ncclUniqueId of(const std::string& name);

 private:
  std::mutex mutex_;
  std::map<std::string, ncclUniqueId> ids_;
};

/// What the n-th send of a rank sends.
std::vector<unsigned char> sent_bytes(int rank, int number, size_t bytes);

/// Runs `body` for ranks on threads and waits for all of their work. Whether it ended; else all ranks waited for each other for ever, and
/// were torn down.
bool ends(int ranks, const std::function<void(NcclRank&)>& body);

/// What a process does by its end: nothing on the GPUs is waited for any more, by any rank.
void tear_down_gpus();
/// New ones, when the ranks have ended.
void bring_back_gpus();
/// NCCL as at the start of the program.
void forget_nccl();

}  // namespace sluice::emulation
