#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "tests/emulation/runtime.h"

// Errors and devices.
namespace sluice::emulation {

namespace {

struct LastError {
  cudaError_t pending = cudaSuccess;  ///< for cudaGetLastError
  cudaError_t code = cudaSuccess;     ///< whose text this is
  std::string text;
};
thread_local LastError last_error;
thread_local int device_of_thread = 0;

constexpr size_t kMemoryBytes = size_t{141} * 1000 * 1000 * 1000;

const cudaDeviceProp& h200() {
  static const cudaDeviceProp properties = [] {
    cudaDeviceProp result{};
    std::strcpy(result.name, "emulated GPU");
    result.totalGlobalMem = kMemoryBytes;
    result.sharedMemPerBlock = SharedMemory::kDefaultBytes;
    result.sharedMemPerBlockOptin = SharedMemory::kMostBytes;
    result.sharedMemPerMultiprocessor = size_t{228} << 10;
    result.regsPerBlock = result.regsPerMultiprocessor = 65536;
    result.warpSize = 32;
    result.maxThreadsPerBlock = 1024;
    result.maxThreadsPerMultiProcessor = 2048;
    result.maxBlocksPerMultiProcessor = 32;
    result.major = 9;
    result.multiProcessorCount = 132;
    result.memoryBusWidth = 6144;
    result.l2CacheSize = 60 << 20;
    result.canMapHostMemory = result.concurrentKernels = result.ECCEnabled = result.unifiedAddressing = 1;
    result.asyncEngineCount = 3;
    const int threads[3] = {1024, 1024, 64}, blocks[3] = {0x7fffffff, 65535, 65535};
    std::copy_n(threads, 3, result.maxThreadsDim);
    std::copy_n(blocks, 3, result.maxGridSize);
    return result;
  }();
  return properties;
}

void check_device(int device) {
  check(device >= 0 && device < kDevices, cudaErrorInvalidDevice, "device ", device, ": there are ", kDevices, " emulated devices");
}

int value_of(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return h200().maxThreadsPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(h200().sharedMemPerBlock);
    case cudaDevAttrWarpSize:
      return h200().warpSize;
    case cudaDevAttrClockRate:
      return 1980000;  // kHz
    case cudaDevAttrMultiProcessorCount:
      return h200().multiProcessorCount;
    case cudaDevAttrMemoryClockRate:
      return 3201000;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return h200().memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return h200().l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return h200().maxThreadsPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor:
      return h200().major;
    case cudaDevAttrComputeCapabilityMinor:
      return h200().minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(h200().sharedMemPerMultiprocessor);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(h200().sharedMemPerBlockOptin);
  }
  throw Refusal{cudaErrorInvalidValue, join("cudaDeviceGetAttribute: attribute ", static_cast<int>(attribute), " is not emulated")};
}

}  // namespace

int current_device() { return device_of_thread; }

cudaError_t remember(cudaError_t code, const std::string& text) {
  last_error = {code, code, text};
  return code;
}

}  // namespace sluice::emulation

using namespace sluice::emulation;

cudaError_t cudaPeekAtLastError() {
  return call([](Runtime&) { return last_error.pending; });
}

cudaError_t cudaGetLastError() {
  return call([](Runtime&) { return std::exchange(last_error.pending, cudaSuccess); });
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    case cudaErrorPeerAccessUnsupported:
      return "cudaErrorPeerAccessUnsupported";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorPeerAccessNotEnabled:
      return "cudaErrorPeerAccessNotEnabled";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit:
      return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread:
      return "cudaErrorStreamCaptureWrongThread";
    case cudaErrorGraphExecUpdateFailure:
      return "cudaErrorGraphExecUpdateFailure";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  return error != cudaSuccess && last_error.code == error ? last_error.text.c_str() : cudaGetErrorName(error);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Runtime&) {
    check_device(device);
    device_of_thread = device;
  });
}

cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&](Runtime&) {
    check_device(device);
    *properties = h200();
    properties->pciBusID = device;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&](Runtime&) {
    check_device(device);
    *value = value_of(attribute);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return call([&](Runtime&) {
    check_device(device);
    std::snprintf(id, static_cast<size_t>(bytes), "0000:%02x:00.0", static_cast<unsigned>(device));
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceSynchronize() {
  return call([](Runtime& state) {
    refuse_to_wait_for_device("cudaDeviceSynchronize", current_device());
    state.wait_for([&] { state.run_device(current_device()); });
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&](Runtime& state) {
    check_device(device);
    check_device(peer);
    *can = device != peer && state.has_peer_access;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call([&](Runtime& state) {
    check_device(peer);
    check(peer != current_device(), cudaErrorInvalidDevice, "cudaDeviceEnablePeerAccess: device ", peer, " is the current device itself");
    check(state.has_peer_access, cudaErrorPeerAccessUnsupported, "cudaDeviceEnablePeerAccess: no access to the memory of device ", peer);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](Runtime& state) {
    *total = kMemoryBytes;
    *free = kMemoryBytes - state.memory.live_bytes(current_device());
  });
}
