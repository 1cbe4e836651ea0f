#pragma once
#include <nccl.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace sluice::nccl {

/// The functions of libnccl that Sluice calls, by its names without their prefix.
struct Library {
  decltype(&ncclGetVersion) GetVersion;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
  decltype(&ncclSend) Send;
  decltype(&ncclRecv) Recv;
};

/// What came of loading a library.
struct Loaded {
  Library library{};
  std::string version;  ///< "2.28.9"
  std::string missing;  ///< why the table is not to be used, with the cure; else empty
};

/// Loads `file`, from where the system finds it or from the first of `folders` that has it. Warns of a version that is known to hang.
Loaded load(const std::string& file, const std::vector<std::string>& folders);

/// libnccl.so.2, loaded at the first call, for the life of the process: the system's, the CUDA toolkit's, or the one that pip had installed
/// when this build was configured. Threads  any.
const Loaded& loaded();

/// A call of NCCL failed.
struct CallError : CommError {
  /// `communicator` may be null.
  CallError(const Library& library, ncclResult_t failed, const char* call, ncclComm_t communicator)
      : CommError(join("nccl: ", call, " failed: ", library.GetErrorString(failed), last_message(library, communicator), "; ", cure(failed),
                       "run again with NCCL_DEBUG=INFO to see what NCCL did")),
        status(failed) {}

  ncclResult_t status;

 private:
  static std::string last_message(const Library& library, ncclComm_t communicator) {
    const char* const text = library.GetLastError(communicator);
    return text && *text ? join(" (", text, ")") : "";
  }
  static std::string cure(ncclResult_t failed);
};

/// Throws CallError with the text of the call that failed.
inline void nccl_try(const Library& library, ncclResult_t status, const char* call, ncclComm_t communicator = nullptr) {
  if (status != ncclSuccess) throw CallError(library, status, call, communicator);
}

}  // namespace sluice::nccl
