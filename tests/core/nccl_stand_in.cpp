// A library with NCCL's functions and any version, for tests of how it is loaded. Built once for each version.
#include <nccl.h>

ncclResult_t ncclGetVersion(int* version) {
  *version = SLUICE_NCCL_VERSION;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "a stand-in"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
#ifndef SLUICE_NCCL_LACKS_FUNCTIONS
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclInternalError; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) { return ncclInternalError; }
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclInternalError; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*) { return ncclInternalError; }
ncclResult_t ncclGroupStart() { return ncclInternalError; }
ncclResult_t ncclGroupEnd() { return ncclInternalError; }
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) { return ncclInternalError; }
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) { return ncclInternalError; }
#endif
