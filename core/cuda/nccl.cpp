#include "core/cuda/nccl.h"

#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <utility>

#include "core/cuda/event.h"
#include "core/cuda/nccl_library.h"
#include "core/cuda/try.h"
#include "core/keep_to_the_end.h"

/// Keeps the text of the call. Needs a `library`.
#define NCCL_TRY(communicator, call) nccl_try(library, library.call, "nccl" #call, communicator)

namespace sluice::nccl {

namespace {

/// Threads that make communicators have asked before whether there is a library.
const Library& used_library() {
  require(loaded().missing.empty(), "nccl: ", loaded().missing);
  return loaded().library;
}

}  // namespace

std::string CallError::cure(ncclResult_t failed) {
  switch (failed) {
    case ncclSystemError:
      return "see that all hosts reach each other over the interfaces of NCCL_SOCKET_IFNAME; ";
    case ncclRemoteError:
      return "another rank failed or is gone, look at what it said; ";
    case ncclInvalidUsage:
      return "give each rank GPUs of its own (CUDA_VISIBLE_DEVICES, or the launcher's binding); ";
    case ncclUnhandledCudaError:
      return "see that the driver is as new as NCCL asks, and that the GPU has memory left beside the devices' budgets; ";
    default:
      return "";
  }
}

std::string unavailable_reason() { return loaded().missing; }
std::string library_version() { return loaded().missing.empty() ? loaded().version : ""; }

std::string new_unique_id() {
  const Library& library = used_library();
  ncclUniqueId id;
  NCCL_TRY(nullptr, GetUniqueId(&id));
  return {id.internal, sizeof id.internal};
}

Communicator::Communicator(int gpu, const std::string& unique_id, int ranks, int rank) : gpu_(gpu) {
  const Library& library = used_library();
  ncclUniqueId id;
  require<CommError>(unique_id.size() == sizeof id.internal, "nccl: needs a communicator's name of ", sizeof id.internal, " bytes, got ",
                     unique_id.size(), "; are all ranks of one build?");
  std::memcpy(id.internal, unique_id.data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;  // without it every call starts a thread and its work comes later: PyTorch went back for hangs (pytorch PR #154055)
  config.maxCTAs = kMostCtas;
  CUDA_TRY(cudaSetDevice(gpu_));
  CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  if (const ncclResult_t status = library.CommInitRankConfig(&communicator_, ranks, id, rank, &config); status != ncclSuccess) {
    cudaStreamDestroy(stream_);
    nccl_try(library, status, "ncclCommInitRankConfig");
  }
}

Communicator::~Communicator() {
  if (is_abandoned_) {
    keep_to_the_end(std::pair(stream_, communicator_));
    return;
  }
  cudaSetDevice(gpu_);
  cudaStreamSynchronize(stream_);
  loaded().library.CommDestroy(communicator_);
  cudaStreamDestroy(stream_);
}

void Communicator::wait_for(const Event& event) const {
  if (event) CUDA_TRY(cudaStreamWaitEvent(stream_, event->handle(), 0));
}

Event Communicator::record() const { return std::make_shared<const CudaEvent>(gpu_, stream_, false); }

Event Communicator::send(const void* memory, size_t bytes, int peer, const Event& ready) {
  const Library& library = used_library();
  CUDA_TRY(cudaSetDevice(gpu_));
  wait_for(ready);
  NCCL_TRY(communicator_, Send(memory, bytes, ncclInt8, peer, communicator_, stream_));
  return record();
}

Event Communicator::receive(void* memory, size_t bytes, int peer, const Event& ready) {
  const Library& library = used_library();
  CUDA_TRY(cudaSetDevice(gpu_));
  wait_for(ready);
  NCCL_TRY(communicator_, Recv(memory, bytes, ncclInt8, peer, communicator_, stream_));
  return record();
}

Event Communicator::send_to_self(const void* from, void* to, size_t bytes, const Event& ready, const Event& free) {
  const Library& library = used_library();
  CUDA_TRY(cudaSetDevice(gpu_));
  wait_for(ready);
  wait_for(free);
  NCCL_TRY(communicator_, GroupStart());
  const ncclResult_t sent = library.Send(from, bytes, ncclInt8, 0, communicator_, stream_);
  const ncclResult_t received = library.Recv(to, bytes, ncclInt8, 0, communicator_, stream_);
  const ncclResult_t ended = library.GroupEnd();  // a group that began has to end, whatever its calls gave
  nccl_try(library, sent, "ncclSend to this rank itself", communicator_);
  nccl_try(library, received, "ncclRecv from this rank itself", communicator_);
  nccl_try(library, ended, "ncclGroupEnd of a send to this rank itself", communicator_);
  return record();
}

void Communicator::check() const {
  const Library& library = used_library();
  ncclResult_t met = ncclSuccess;
  NCCL_TRY(communicator_, CommGetAsyncError(communicator_, &met));
  nccl_try(library, met, "an operation that was under way", communicator_);
}

}  // namespace sluice::nccl
