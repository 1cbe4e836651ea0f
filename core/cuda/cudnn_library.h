#pragma once
#include <cudnn_graph.h>

#include <string>

#include "core/error.h"

namespace sluice::cudnn {

/// The functions of libcudnn that Sluice calls, by its names without their prefix.
struct Library {
  decltype(&cudnnGetVersion) GetVersion;
  decltype(&cudnnGetErrorString) GetErrorString;
  decltype(&cudnnGetLastErrorString) GetLastErrorString;
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnBackendCreateDescriptor) BackendCreateDescriptor;
  decltype(&cudnnBackendDestroyDescriptor) BackendDestroyDescriptor;
  decltype(&cudnnBackendSetAttribute) BackendSetAttribute;
  decltype(&cudnnBackendGetAttribute) BackendGetAttribute;
  decltype(&cudnnBackendFinalize) BackendFinalize;
  decltype(&cudnnBackendExecute) BackendExecute;
};

/// Loads libcudnn.so.9 at the first call, for the life of the process: the system's, the CUDA toolkit's, or the one that pip had installed when
/// this build was configured. Null where none can be loaded or it is older than 9.8. Warns once where it lacks nvrtc, its compiler.
/// Threads  any.
const Library* library();
/// Why `library` is null, else empty.
std::string library_missing_reason();

/// A call of cuDNN failed.
struct CallError : DeviceError {
  CallError(const Library& library, cudnnStatus_t failed, const char* call)
      : DeviceError(join("cudnn: ", call, " failed: ", library.GetErrorString(failed), last_message(library),
                         "; run again with SLUICE_CUDNN=0 to do without cuDNN")),
        status(failed) {}

  /// The library has nothing for what was asked: no mistake of ours.
  bool is_refusal() const { return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000; }

  cudnnStatus_t status;

 private:
  static std::string last_message(const Library& library) {
    char text[1024] = {};
    library.GetLastErrorString(text, sizeof text);
    return *text ? join(" (", text, ")") : "";
  }
};

/// Throws CallError with the text of the call that failed.
inline void cudnn_try(const Library& library, cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) throw CallError(library, status, call);
}

}  // namespace sluice::cudnn
